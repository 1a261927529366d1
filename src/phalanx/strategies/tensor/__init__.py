"""`tensor`: the weights of each linear and convolutional layer split over the ranks.

Start reading at strategy.py.
"""
