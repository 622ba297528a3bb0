"""`hiddenstate datasets`."""

from hiddenstate.cli.console import note


def datasets() -> None:
    """List the small real data sets that come along; their names can stand wherever DATA is asked for.

    [bold]Example:[/bold] hiddenstate compare nile
    """
    import polars as pl

    import hiddenstate as hs
    from hiddenstate.cli.reading import described
    from hiddenstate.report.tables import print_table

    rows = []
    for name in hs.datasets.names():
        summary = (getattr(hs.datasets, name).__doc__ or "").strip().splitlines()[0]
        rows.append({"name": name, "what": summary.partition(":")[0], "size": described(hs.datasets.load(name))})
    print_table(pl.DataFrame(rows))
    note("hiddenstate compare NAME ranks the models on one of them.")
