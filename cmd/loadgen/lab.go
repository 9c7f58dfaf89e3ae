package main

func runLab(a *app, args []string) error { return usagef("no lab") }
