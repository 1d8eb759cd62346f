"""What the book shows and asks beside its code: the pictures, and the checks of a reader's answers."""
