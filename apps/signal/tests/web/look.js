// Answers what is wrong with this page, as sentences; an empty list is a page in order.
const wrong = [];
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) wrong.push(`scrolls sideways: ${root.scrollWidth} in ${root.clientWidth}`);

function hidden(element) {
  return element.closest('title, option') !== null || !element.checkVisibility() ||
    [...parents(element)].some(one => getComputedStyle(one).clipPath !== 'none');
}
function* parents(element) {
  for (let one = element; one !== null; one = one.parentElement) yield one;
}

// Every line of every text, as a box; letters don't reach to the ends of their line's box.
const lines = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (!node.data.trim() || hidden(element)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    if (box.width < 1 || box.right < 0) continue;
    const line = {text: node.data.trim().slice(0, 40), element,
      left: box.left + 1, right: box.right - 1, top: box.top + 3, bottom: box.bottom - 3};
    lines.push(line);
    if (!element.closest('.wide') && (box.right > root.clientWidth + 1 || box.left < -1))
      wrong.push(`beyond the edge: ${line.text}`);
  }
}
lines.sort((a, b) => a.top - b.top);
for (let i = 0; i < lines.length; i++)
  for (let j = i + 1; j < lines.length && lines[j].top < lines[i].bottom; j++)
    if (lines[i].left < lines[j].right && lines[j].left < lines[i].right)
      wrong.push(`overlap: ${lines[i].text} | ${lines[j].text}`);

// Contrast by WCAG 2.2, 1.4.3.
function channels(color) {
  const numbers = color.match(/[\d.]+/g).map(Number);
  return {rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1};
}
function luminance(rgb) {
  const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(element) {
  for (const one of parents(element)) {
    const {rgb, alpha} = channels(getComputedStyle(one).backgroundColor);
    if (alpha === 1) return rgb;
  }
  return [255, 255, 255];
}
for (const element of new Set(lines.map(line => line.element))) {
  const pair = [luminance(channels(getComputedStyle(element).color).rgb), luminance(ground(element))].sort((a, b) => b - a);
  const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
  if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${element.textContent.trim().slice(0, 40)}`);
}

// What a screen reader goes by.
if (!root.lang) wrong.push('no language');
for (const name of ['main', 'nav', 'h1'])
  if (document.querySelectorAll(name).length !== 1) wrong.push(`not one ${name}`);
for (const time of document.querySelectorAll('time'))
  if (isNaN(Date.parse(time.dateTime))) wrong.push(`no instant: ${time.textContent}`);
for (const link of document.querySelectorAll('a'))
  if (!link.innerText.trim() && !hidden(link)) wrong.push(`an empty link to ${link.href}`);
return wrong;
