"""Write the phrasebook's files into the package: python -m tools.phrasebook"""

from . import FILES, write

for path, rows in FILES.items():
    write(path, rows())
    print(f"{path}: {path.stat().st_size:,} bytes")
