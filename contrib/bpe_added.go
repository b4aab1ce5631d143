package contrib

// segment is a part of a text: a token, or text if its id is noToken.
type segment struct {
	text []rune
	id   uint32
}

// splitTokens divides a text into the longest tokens from the left and the text between them. As
// in ONNX Runtime Extensions, no token is found after an incomplete token that ends at the last
// character of the text or the one before it.
func splitTokens(c *call, tokens *trie[rune], text []rune) ([]segment, error) {
	var out []segment
	from := 0
	for at, work := 0, 0; at < len(text); {
		size, id, begins := tokens.longest(text[at:])
		if work += begins + 1; work > 1<<16 {
			work = 0
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
		}
		if size == 0 {
			if at+begins+1 >= len(text) {
				break
			}
			at++
			continue
		}
		if at > from {
			out = append(out, segment{text[from:at], noToken})
		}
		out = append(out, segment{text[at : at+size], uint32(id)})
		at += size
		from = at
	}
	if from < len(text) {
		out = append(out, segment{text[from:], noToken})
	}
	return out, nil
}
