"""Other programs' command lines and configuration files, translated into settings of Phalanx."""
