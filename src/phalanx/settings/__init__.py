"""Every choice of a training: from flags and files, checked before any rank starts, no torch."""
