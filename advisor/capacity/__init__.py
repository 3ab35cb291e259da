"""Capacity: what the advice means in requests per second, GPUs and money.

A discrete-event simulation of continuous batching driven by the step-time model, analytic bounds beside it, and the
plan made from both.
"""
