"""Results with named fields, as torch.return_types."""


def define(name, *fields):
    """A tuple type `name` whose elements can also be read as attributes."""

    def __new__(cls, values):
        return tuple.__new__(cls, values)

    def __repr__(self):
        inner = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self))
        return f"torch.return_types.{name}(\n{inner})"

    def __reduce__(self):
        return make, (name, tuple(self))

    body = {f: property(lambda self, i=i: self[i]) for i, f in enumerate(fields)}
    body.update(__new__=__new__, __repr__=__repr__, __reduce__=__reduce__, __slots__=(), __module__="torch.return_types",
                n_fields=len(fields), __match_args__=fields)
    return type(name, (tuple,), body)


def make(name, values):
    """The result of that name: how pickles say it."""
    return globals()[name](values)


max = define("max", "values", "indices")  # noqa: A001
min = define("min", "values", "indices")  # noqa: A001
max_out = define("max_out", "values", "indices")
min_out = define("min_out", "values", "indices")
