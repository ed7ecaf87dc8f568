"""What all parts use and no user imports: documents, rows, rule names, output files, words.

rulenames            the rules by name: ids and slugs
documents, rows      dataclasses and rows as JSON
outputs, privacy     where output goes, and who may read it
wording              counts, sizes and names in texts
budget               what the work under way may use
quantities           sizes, durations and times as people write them
caches, late         the user's cache; names of a package that are imported when they are used
"""
