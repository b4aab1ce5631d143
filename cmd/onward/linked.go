//go:build !core

package main

import _ "github.com/onward-ml/onward/contrib" // 1 MB: tokenizers and their Unicode tables

// pagesLinked is false in a program without pages.
const pagesLinked = true

// flagsLeftOut are the flags that build tags leave out.
var flagsLeftOut []string
