package contrib

// runeTrie finds added tokens in texts.
type runeTrie struct {
	next  map[rune]*runeTrie
	id    uint32
	token bool
}

func (t *runeTrie) add(text []rune, id uint32) {
	for _, r := range text {
		if t.next == nil {
			t.next = map[rune]*runeTrie{}
		}
		if t.next[r] == nil {
			t.next[r] = &runeTrie{}
		}
		t = t.next[r]
	}
	t.id, t.token = id, true
}

// segment is a part of a text: a token, or text if its id is noToken.
type segment struct {
	text []rune
	id   uint32
}

// split divides a text into the longest tokens from the left and the text between them. As in
// ONNX Runtime Extensions, no token is found after an incomplete token that ends at the last
// character of the text or the one before it.
func (t *runeTrie) split(text []rune) []segment {
	var out []segment
	from := 0
	for at := 0; at < len(text); {
		node, k := t, at
		end, id := 0, uint32(0)
		for k < len(text) && node.next[text[k]] != nil {
			node = node.next[text[k]]
			k++
			if node.token {
				end, id = k, node.id
			}
		}
		if end == 0 {
			if k+1 >= len(text) {
				break
			}
			at++
			continue
		}
		if at > from {
			out = append(out, segment{text[from:at], noToken})
		}
		out = append(out, segment{text[at:end], id})
		at, from = end, end
	}
	if from < len(text) {
		out = append(out, segment{text[from:], noToken})
	}
	return out
}
