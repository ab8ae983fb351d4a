"""An order and its receipt in one commit of Django's atomic(), and the mark that it was sent in another."""

from pathlib import Path

import django
from django.conf import settings
from django.db import connection, models, transaction

from nextdue import Context, Nextdue

nd = Nextdue(Path(__file__).with_name("django.db"))
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": nd.path}})
django.setup()


class Order(models.Model):
    receipts = models.IntegerField(default=0)

    class Meta:
        app_label = "shop"


@nd.task
def receipt(ctx: Context, order: int) -> None:
    print("receipt for order", order)
    with transaction.atomic(), ctx.finish(tx=connection):
        Order.objects.filter(id=order).update(receipts=models.F("receipts") + 1)


if __name__ == "__main__":
    nd.find()  # makes its tables, which is not done inside of your transaction
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    with transaction.atomic():
        order = Order.objects.create()
        receipt.using(tx=connection).enqueue(order.id)
    nd.run(once=True)
    print("orders and their receipts:", list(Order.objects.values_list("id", "receipts")))
