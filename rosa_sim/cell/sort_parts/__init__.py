"""The sorting cell: three blocks of different named colours, two bins, and a person's hand that sometimes enters."""
