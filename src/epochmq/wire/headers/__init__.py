"""The custom headers of all request codes, one module for each group; they travel as
`extFields`.
"""
