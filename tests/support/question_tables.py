"""Typical tables of companies and schools, and queries as short texts."""

from datetime import date
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.tables.columns import Column, Table

TODAY: Final = date(2026, 11, 23)

_TEXT, _NUMBER, _DATE = pb.TABLE_TYPE_TEXT, pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_DATE
_CURRENCY, _PERCENT, _BOOLEAN = pb.TABLE_TYPE_CURRENCY, pb.TABLE_TYPE_PERCENT, pb.TABLE_TYPE_BOOLEAN

STAFF: Final = Table(
    (
        Column("Employee", _TEXT, ("Ada Miller", "Bob Stone", "Cem Kaya"), unique=True),
        Column("Department", _TEXT, ("Sales", "Engineering", "Human Resources", "Finance")),
        Column("Gender", _TEXT, ("female", "male", "diverse")),
        Column("City", _TEXT, ("Berlin", "London", "Paris")),
        Column("Hire date", _DATE, first=date(2015, 2, 1), last=date(2026, 10, 1)),
        Column("Salary", _CURRENCY, currency="€"),
        Column("Bonus (%)", _PERCENT),
        Column("Remote", _BOOLEAN),
        Column("Age", _NUMBER),
    ),
    ("Staff list", "Staff"),
)
ORDERS: Final = Table(
    (
        Column("Order ID", _NUMBER, unique=True),
        Column("Order date", _DATE, first=date(2025, 1, 3), last=date(2026, 9, 28)),
        Column("Ship date", _DATE, first=date(2025, 1, 5), last=date(2026, 10, 2)),
        Column("Customer name", _TEXT, ("Acme", "Globex", "Initech", "Umbrella")),
        Column("Region", _TEXT, ("North", "South", "East", "West")),
        Column("Product", _TEXT, ("Laptop", "Monitor", "Desk lamp")),
        Column("Quantity", _NUMBER),
        Column("Unit price", _CURRENCY, currency="$"),
        Column("Revenue", _CURRENCY, currency="$"),
        Column("Amount", _CURRENCY, currency="$"),
        Column("Status", _TEXT, ("open", "shipped", "cancelled")),
    ),
    ("Orders", "sales 2026"),
)
UMSATZ: Final = Table(
    (
        Column("Datum", _DATE, first=date(2026, 1, 2), last=date(2026, 8, 30)),
        Column("Kunde", _TEXT, ("Müller GmbH", "Schmidt AG", "Weber KG")),
        Column("Region", _TEXT, ("Nord", "Süd", "Ost", "West")),
        Column("Artikel", _TEXT, ("Tisch", "Stuhl", "Lampe")),
        Column("Menge", _NUMBER),
        Column("Umsatz", _CURRENCY, currency="€"),
        Column("Status", _TEXT, ("offen", "bezahlt", "storniert")),
    ),
    ("Verkäufe", "Umsatzliste 2026"),
)
PERSONAL: Final = Table(
    (
        Column("Personalnummer", _TEXT, unique=True),
        Column("Mitarbeiter", _TEXT, ("Anna Klein", "Jörg Groß")),
        Column("Abteilung", _TEXT, ("Vertrieb", "Einkauf", "Entwicklung")),
        Column("Standort", _TEXT, ("Köln", "Bonn")),
        Column("Eintrittsdatum", _DATE, first=date(2010, 1, 1), last=date(2026, 9, 1)),
        Column("Gehalt", _CURRENCY, currency="€"),
        Column("Urlaubstage", _NUMBER),
    ),
    ("Personal", "Stammdaten"),
)
STOCK: Final = Table(
    (
        Column("SKU", _TEXT, unique=True),
        Column("Item", _TEXT, ("Hammer", "Nails 5 cm", "Saw", "Paint"), unique=True),
        Column("Category", _TEXT, ("Tools", "Fasteners", "Paints")),
        Column("Warehouse", _TEXT, ("Hamburg", "Rotterdam")),
        Column("Stock", _NUMBER),
        Column("Minimum stock", _NUMBER),
        Column("Price", _CURRENCY, currency="€"),
        Column("Last counted", _DATE, first=date(2026, 1, 1), last=date(2026, 6, 30)),
        Column("Discontinued", _BOOLEAN),
    ),
    ("Inventory",),
)
LAGER: Final = Table(
    (
        Column("Artikelnummer", _TEXT, unique=True),
        Column("Bezeichnung", _TEXT, ("Schraube M4", "Mutter M4", "Bohrer")),
        Column("Lagerort", _TEXT, ("Halle 1", "Halle 2")),
        Column("Bestand", _NUMBER),
        Column("Preis", _CURRENCY, currency="€"),
        Column("Lieferant", _TEXT, ("Bosch", "Würth")),
    ),
    ("Lager",),
)
SCHOOL: Final = Table(
    (
        Column("Name", _TEXT, ("Mia Wolf", "Leo Kurz")),
        Column("Class", _TEXT, ("5a", "5b", "6a")),
        Column("Subject", _TEXT, ("Maths", "English", "Art")),
        Column("Grade", _NUMBER),
        Column("Score", _NUMBER),
        Column("Exam date", _DATE, first=date(2026, 1, 15), last=date(2026, 7, 1)),
        Column("Absences", _NUMBER),
        Column("Year", _NUMBER),
    ),
    ("Students",),
)
NOTEN: Final = Table(
    (
        Column("Schüler", _TEXT, ("Mia Wolf", "Leo Kurz")),
        Column("Klasse", _TEXT, ("5a", "5b", "6a")),
        Column("Fach", _TEXT, ("Mathe", "Deutsch", "Kunst")),
        Column("Note", _NUMBER),
        Column("Datum", _DATE, first=date(2025, 9, 1), last=date(2026, 7, 1)),
        Column("Fehltage", _NUMBER),
    ),
    ("Noten",),
)
TABLES: Final = {
    "staff": STAFF,
    "orders": ORDERS,
    "umsatz": UMSATZ,
    "personal": PERSONAL,
    "stock": STOCK,
    "lager": LAGER,
    "school": SCHOOL,
    "noten": NOTEN,
}

_OPERATORS: Final = {
    pb.TABLE_OPERATOR_EQ: "=",
    pb.TABLE_OPERATOR_IN: "in",
    pb.TABLE_OPERATOR_GT: ">",
    pb.TABLE_OPERATOR_GE: ">=",
    pb.TABLE_OPERATOR_LT: "<",
    pb.TABLE_OPERATOR_LE: "<=",
}


def shown(query: pb.TableQuery | None) -> str:
    """A query as a short text: `sum(Amount) | Region = North | by Region | top 5`; empty for none."""
    if query is None:
        return ""
    parts = [f"{pb.TableFunction.Name(a.function)[15:].lower()}({a.column or '*'})" for a in query.aggregates]
    parts = parts or ["rows(" + ", ".join(query.columns) + ")"]
    filters = [f"{f.column} {_OPERATORS[f.op]} {', '.join(f.values)}" for f in query.filters]
    groups = [g.column + (f" {pb.DatePart.Name(g.part)[10:].lower()}" if g.part else "") for g in query.group_by]
    parts += ["; ".join(filters)] if filters else []
    parts += ["by " + ", ".join(groups)] if groups else []
    parts += [f"{'top' if o.descending else 'bottom'} {query.limit} of {o.index}" for o in query.order_by]
    return " | ".join(parts)
