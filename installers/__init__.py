"""`make dist`: what is installed elsewhere: a wheel, a folder with its own Python, Debian packages."""
