"""Every `# LaTeX:` marker of the package, evaluated and compared with what its statement really produced."""
