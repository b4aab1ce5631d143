package main

import "testing"

func TestRank(t *testing.T) {
	texts := []string{"stocks fell sharply today", "The cat sat on the mat", "the dog sat on the rug", ""}
	got, err := rank(t.Context(), "a cat sat on a mat", texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(texts) || got[0].text != texts[1] || got[1].text != texts[2] {
		t.Errorf("got %v, want the cat before the dog before the rest", got)
	}
	for _, r := range got {
		if !(r.similarity >= -1.0001 && r.similarity <= 1.0001) || r.text == "" && r.similarity != 0 {
			t.Errorf("%q has similarity %v", r.text, r.similarity)
		}
	}
}

// TestPadding compares a text alone with the same text in a batch with a longer one.
func TestPadding(t *testing.T) {
	alone, err := rank(t.Context(), "one two", []string{"two three"})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := rank(t.Context(), "one two", []string{"two three", "a text of many more words than the others"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range batch {
		if r.text == "two three" && r.similarity != alone[0].similarity {
			t.Errorf("similarity %v in a batch, %v alone", r.similarity, alone[0].similarity)
		}
	}
}
