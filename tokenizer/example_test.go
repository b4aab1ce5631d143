package tokenizer_test

import (
	"fmt"
	"log"

	"github.com/onward-ml/onward/tokenizer"
)

func ExampleOpen() {
	tok, err := tokenizer.Open("testdata/small/bert.json", &tokenizer.Options{NoTruncation: true, NoPadding: true})
	if err != nil {
		log.Fatal(err)
	}
	e, err := tok.Encode("What is it?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Tokens)
	fmt.Println(e.IDs)
	fmt.Println(e.Offsets)
	// Output:
	// [[CLS] w ##h ##a ##t i ##s i ##t ? [SEP]]
	// [2 65 496 513 500 51 512 51 500 35 3]
	// [[0 0] [0 1] [1 2] [2 3] [3 4] [5 6] [6 7] [8 9] [9 10] [10 11] [0 0]]
}

func ExampleTokenizer_EncodePair() {
	tok, err := tokenizer.Open("testdata/small/bert.json", &tokenizer.Options{
		Truncation: &tokenizer.Truncation{MaxLength: 12, Strategy: "OnlySecond", Stride: 2},
		NoPadding:  true,
	})
	if err != nil {
		log.Fatal(err)
	}
	e, err := tok.EncodePair("it?", "the lazy dog is it")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Tokens)
	for _, window := range e.Overflow {
		fmt.Println(window.Tokens)
	}
	// Output:
	// [[CLS] i ##t ? [SEP] t ##h ##e l ##a ##z [SEP]]
	// [[CLS] i ##t ? [SEP] ##a ##z ##y d ##o ##g [SEP]]
	// [[CLS] i ##t ? [SEP] ##o ##g i ##s i ##t [SEP]]
}

func ExampleTokenizer_NewDecoder() {
	tok, err := tokenizer.Open("testdata/small/llama3.json", &tokenizer.Options{NoSpecialTokens: true})
	if err != nil {
		log.Fatal(err)
	}
	e, err := tok.Encode("fox 😀!")
	if err != nil {
		log.Fatal(err)
	}
	d := tok.NewDecoder(true)
	for _, id := range e.IDs {
		part, err := d.Next(id)
		if err != nil {
			log.Fatal(err)
		}
		if part != "" { // the bytes of a character may be several tokens
			fmt.Printf("%q\n", part)
		}
	}
	// Output:
	// "f"
	// "ox"
	// " 😀"
	// "!"
}
