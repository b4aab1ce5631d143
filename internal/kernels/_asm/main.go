// Command _asm generates the assembly of the kernels: the .s files, their Go stubs and dispatchers,
// and the dispatchers of builds without assembly. go generate runs it in the package of the
// kernels. The results are checked in, and their names begin with z_.
//
// It emits text and does not allocate registers: every kernel names its registers. Operands are in
// the order of Go's assembler, destination last. asm.go and arm64.go serve all generators.
package main

import (
	"log"
	"os"
)

// writers maps a package of kernels to the functions that write its files.
var writers = map[string][]func(dir string){}

// register adds a function that writes files of package pkg to a folder.
func register(pkg string, write func(dir string)) bool {
	writers[pkg] = append(writers[pkg], write)
	return true
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || len(os.Args) > 3 || writers[os.Args[1]] == nil {
		log.Fatal("usage: go run . vec|gemm|conv|quant|tree [FOLDER]")
	}
	dir := "../" + os.Args[1]
	if len(os.Args) == 3 {
		dir = os.Args[2]
	}
	for _, w := range writers[os.Args[1]] {
		w(dir)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
