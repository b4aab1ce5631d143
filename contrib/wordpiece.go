package contrib

// wordPiece divides words into the longest pieces of a vocabulary.
type wordPiece struct {
	ids    map[string]int64
	suffix string // precedes pieces after the first of a word
	limit  int    // words with more characters are unknown
}

// split calls piece for each piece of a word: its text and id. It returns false if the rest of
// the word has no piece.
func (p *wordPiece) split(word []rune, piece func(text string, id int64)) bool {
	if len(word) > p.limit {
		return false
	}
	// The text of word, and where its characters begin.
	text := encodeText(word)
	starts := make([]int, len(word)+1)
	for i, r := range word {
		starts[i+1] = starts[i] + len(encodeText([]rune{r}))
	}
	key := []byte(p.suffix + text)
	for start := 0; start < len(word); {
		end := len(word)
		for ; end > start; end-- {
			at := len(p.suffix) + starts[start]
			k := key[at : len(p.suffix)+starts[end]]
			if start > 0 {
				at -= len(p.suffix)
				copy(key[at:], p.suffix) // what precedes has been found
				k = key[at : len(p.suffix)+starts[end]]
			}
			if id, ok := p.ids[string(k)]; ok {
				piece(string(k), id)
				break
			}
		}
		if end == start {
			return false
		}
		start = end
	}
	return true
}
