"""What takes longer than a chapter allows: each module is a command that writes files of the folder above."""
