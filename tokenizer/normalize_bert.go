package tokenizer

import "unicode/utf8"

// bertNormalizer is the normalizer of BERT: it deletes control characters, surrounds
// ideographs with spaces, removes accents and converts to lowercase, each if asked.
type bertNormalizer struct{ clean, chinese, strip, lower bool }

func (b *bertNormalizer) normalize(t *text, sc *scratch) error {
	e := newEdit(t, sc, 0)
	if !sc.room(len(t.s), 0) {
		return sc.err
	}
	for i := 0; i < len(t.s) && sc.step(1); {
		if c := t.s[i]; c < utf8.RuneSelf {
			i++
			switch {
			case b.clean && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
				c = ' '
			case b.clean && (c < ' ' || c == 0x7F):
				e.diverge()
				e.skip(1)
				continue
			case b.lower && 'A' <= c && c <= 'Z':
				c += 'a' - 'A'
			}
			if e.same {
				sc.bytes = append(sc.bytes, c)
				e.pos++
			} else {
				e.put(rune(c), 0)
			}
			continue
		}
		r, size := utf8.DecodeRune(t.s[i:])
		i += size
		if b.chinese && isChinese(r) {
			e.put(' ', 0)
			b.putFolded(&e, r, 1)
			e.put(' ', 1)
			continue
		}
		p := ucd.of(r)
		if b.clean && (p.flags&isOther != 0 || r == utf8.RuneError) || b.strip && p.flags&isNonspacing != 0 {
			e.diverge()
			e.skip(1)
			continue
		}
		if b.strip && (p.combines != 0 || p.flags&hasNFD != 0 && reorders(r)) {
			return b.slow(t, sc)
		}
		if b.clean && p.flags&isSpace != 0 {
			r = ' '
		}
		b.putFolded(&e, r, 0)
	}
	return e.end()
}

// putFolded emits r without accents and in lowercase.
func (b *bertNormalizer) putFolded(e *edit, r rune, change int) {
	if !b.strip || !ucd.is(r, hasNFD) && r < hangulBase {
		b.putLower(e, r, change)
		return
	}
	d, ok := decompose(r, false)
	if !ok {
		b.putLower(e, r, change)
		return
	}
	none := true
	for _, r := range d {
		if ucd.is(r, isNonspacing) {
			continue
		}
		b.putLower(e, r, change)
		change, none = 1, false
	}
	if none && change == 0 {
		e.diverge()
		e.skip(1)
	}
}

// reorders reports whether the decomposition of r has combining characters that are no
// accents, which accents after r may precede.
func reorders(r rune) bool {
	for _, d := range ucd.nfd[r] {
		if c := ucd.of(d); c.combines != 0 && c.flags&isNonspacing == 0 {
			return true
		}
	}
	return false
}

func (b *bertNormalizer) putLower(e *edit, r rune, change int) {
	if !b.lower || !ucd.is(r, hasLower) {
		e.put(r, change)
		return
	}
	if r < utf8.RuneSelf {
		e.put(r+'a'-'A', change)
		return
	}
	for _, l := range ucd.lower[r] {
		e.put(l, change)
		change = 1
	}
}

// slow applies one step after the other. The single pass above does not reorder the combining
// characters that are no accents.
func (b *bertNormalizer) slow(t *text, sc *scratch) error {
	if b.clean {
		keep := func(r rune) bool { return r != 0 && r != utf8.RuneError && !ucd.is(r, isOther) }
		err := filterNormalizer(keep).normalize(t, sc)
		if err != nil {
			return err
		}
		err = mapRunes(t, sc, func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' || ucd.is(r, isSpace) {
				return ' '
			}
			return r
		})
		if err != nil {
			return err
		}
	}
	if b.chinese {
		e := newEdit(t, sc, 0)
		for i := 0; i < len(t.s) && sc.err == nil; {
			r, n := utf8.DecodeRune(t.s[i:])
			i += n
			if isChinese(r) {
				e.put(' ', 0)
				e.put(r, 1)
				e.put(' ', 1)
			} else {
				e.put(r, 0)
			}
		}
		if err := e.end(); err != nil {
			return err
		}
	}
	if b.strip {
		if err := (&unicodeNormalizer{}).normalize(t, sc); err != nil {
			return err
		}
		if err := filterNormalizer(func(r rune) bool { return !ucd.is(r, isNonspacing) }).normalize(t, sc); err != nil {
			return err
		}
	}
	if b.lower {
		return lowercaseNormalizer{}.normalize(t, sc)
	}
	return nil
}

// isChinese reports whether BERT surrounds a character with spaces. Extension E begins too
// late, as in tokenizers.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4DBF, r >= 0x4E00 && r <= 0x9FFF, r >= 0xF900 && r <= 0xFAFF:
		return true
	}
	return r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0x2F800 && r <= 0x2FA1F
}
