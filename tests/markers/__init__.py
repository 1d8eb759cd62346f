"""Every `# LaTeX:` marker of the package, evaluated and compared with what its statement really produced."""

from .check import Report, check_function, check_module, functions_of

__all__ = ["Report", "check_function", "check_module", "functions_of"]
