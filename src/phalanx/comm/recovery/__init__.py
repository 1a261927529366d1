"""Ranks that are lost: those that are left go on as the job, with new ones in their place."""
