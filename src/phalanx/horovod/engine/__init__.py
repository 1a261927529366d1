"""How operations of the same name find each other, whatever order ranks ask for them in.

Start reading at engine.py.
"""
