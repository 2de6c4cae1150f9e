"""What the paper claims of its mechanisms, and what is proved beyond: closed forms, no sampling."""
