package contrib

import "slices"

const pieceSpace = '▁'

// encodePieces encodes a text of a model that was converted from SentencePiece.
func (e *bpeEncoder) encodePieces(text []rune) error {
	return e.parts(text, func(part []rune) error {
		part, whole := slices.Clone(part), e.name == "Gemma" || e.noSplit
		if e.prefix && len(part) > 0 {
			whole = whole || part[0] == ' '
			part = slices.Insert(part, 0, pieceSpace)
		}
		if whole {
			return e.long(part)
		}
		return e.pieces(part)
	})
}

// pieces divides a text and encodes its parts.
func (e *bpeEncoder) pieces(text []rune) error {
	for len(text) > 0 && !e.full() {
		n := next(text, e.split)
		part := slices.Clone(text[:n])
		for i, r := range part {
			if r == ' ' {
				part[i] = pieceSpace
			}
		}
		e.buf = e.buf[:0]
		if s := encodeText(part); e.id(s) != noToken {
			e.buf = append(e.buf, symbol{id: e.id(s), size: uint32(len(s))})
		} else {
			for _, r := range part {
				e.character(encodeText([]rune{r}), 1)
			}
		}
		if err := e.put(0); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// long encodes a text in parts of more than 10 tokens that end before a space or line break, or
// have 101 tokens.
func (e *bpeEncoder) long(text []rune) error {
	boundary := func(r rune) bool { return r == ' ' || isNewline(r) || r == pieceSpace }
	e.buf = e.buf[:0]
	for i := 0; i <= len(text) && !e.full(); i++ {
		n := len(e.buf)
		if i == len(text) || n > 100 || n > 10 && !boundary(text[i-1]) && boundary(text[i]) {
			if err := e.put(0); err != nil {
				return err
			}
			e.buf = e.buf[:0]
		}
		if i < len(text) {
			r := text[i]
			if r == ' ' {
				r = pieceSpace
			}
			s := encodeText([]rune{r})
			e.character(s, len(s))
		}
	}
	return nil
}

// character appends the token of a character, which counts as size bytes in offsets, or those
// of its bytes.
func (e *bpeEncoder) character(s string, size int) {
	if id := e.id(s); id != noToken {
		e.buf = append(e.buf, symbol{id: id, size: uint32(size)})
		return
	}
	for i := range len(s) {
		e.buf = append(e.buf, symbol{id: e.id(s[i : i+1]), size: 1})
	}
}
