"""What the columns of a pool are for: which ones are covariates, given the roles of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from causalbald.errors import InputError
from causalbald.tables._reading import check_has_column


def check_column_list(names: object, option: str) -> None:
    """Raise InputError if what should be a list of columns is a single text. Nothing else is checked.

    Parameters
    ----------
    names : sequence of str
        What the user passed; None is accepted.
    option : str
        The name of the option, for the error.

    Raises
    ------
    InputError
        If ``names`` is text.

    Examples
    --------
    >>> from causalbald.tables import check_column_list
    >>> check_column_list(["age"], "covariates")
    """
    if isinstance(names, str):
        raise InputError(f"{option} must be a list of columns, such as [{names!r}], got the text {names!r}.")


def covariate_names(
    columns: Sequence[str],
    roles: Mapping[str, str],
    *,
    covariates: Sequence[str] | Mapping[str, str] | None = None,
    exclude: Collection[str] = (),
    optional_roles: Collection[str] = (),
) -> list[str]:
    """Return the names of the covariates among the columns of a pool, in the order of the table.

    If ``covariates`` is a sequence, the order is that of the sequence.

    Parameters
    ----------
    columns : sequence of str
        All columns of the table.
    roles : mapping of str to str
        From columns to what they are for, such as "id". They cannot be covariates.
    covariates : sequence or mapping of str, optional
        The covariates; by default all columns without a role. A mapping from columns to kinds ("numeric" or
        "categorical") does not limit the covariates: columns that it does not name are covariates, too.
    exclude : collection of str
        Columns to leave out, even if ``covariates`` names them.
    optional_roles : collection of str
        Columns of costs and weights, which are not in ``roles``. They are covariates only if ``covariates`` names them.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If a column does not exist, a covariate has a role, or ``covariates`` or ``exclude`` is a single text.

    Examples
    --------
    >>> from causalbald.tables import covariate_names
    >>> covariate_names(["patient", "drug", "age", "sex"], {"patient": "id", "drug": "treatment"}, exclude=["sex"])
    ['age']
    """
    check_column_list(covariates, "covariates")
    check_column_list(exclude, "exclude")
    for name in exclude:
        check_has_column(columns, name, "columns to exclude")
    named = covariates or ()
    for name in named:
        check_has_column(columns, name, "covariates")
        if name in roles:
            raise InputError(f"column {name!r} cannot be a covariate: it is the {roles[name]}.")
    takes_others = covariates is None or isinstance(covariates, Mapping)
    chosen = columns if takes_others else dict.fromkeys(named)
    return [n for n in chosen if n not in {*exclude, *roles} and (n in named or n not in optional_roles)]
