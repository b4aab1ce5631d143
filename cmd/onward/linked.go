//go:build !core

package main

// pagesLinked is false in a program without pages.
const pagesLinked = true

// flagsLeftOut are the flags that build tags leave out.
var flagsLeftOut []string
