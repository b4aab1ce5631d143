package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Types of the pieces of a SentencePiece model.
const (
	pieceNormal      = 1
	pieceUnknown     = 2
	pieceControl     = 3
	pieceUserDefined = 4
	pieceUnused      = 5
	pieceByte        = 6
)

const spaceSymbol = "▁"

// spPiece is an entry of a SentencePiece vocabulary.
type spPiece struct {
	text  string
	score float32
	kind  int
}

// spFile is what this package reads of a SentencePiece ModelProto.
type spFile struct {
	pieces       []spPiece
	kind         int // of the model: 1 Unigram, 2 BPE
	byteFallback bool
	suffix       bool // whitespace is the end of a word
	unkSurface   string

	spSpec
	denormalizer *spSpec // applied to decoded texts
}

// spSpec is a NormalizerSpec.
type spSpec struct {
	charsmap                []byte
	prefix, collapse, space bool // add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
}

func (n *spSpec) parse(data []byte) error {
	n.prefix, n.collapse, n.space = true, true, true
	return protoFields(data, func(field int, v uint64, data []byte) error {
		switch field {
		case 2:
			n.charsmap = data
		case 3:
			n.prefix = v != 0
		case 4:
			n.collapse = v != 0
		case 5:
			n.space = v != 0
		}
		return nil
	})
}

// protoFields calls f for each field of a protobuf message.
func protoFields(b []byte, f func(field int, v uint64, data []byte) error) error {
	bad := errors.New("invalid protobuf")
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return bad
		}
		b = b[n:]
		var (
			v    uint64
			data []byte
		)
		switch tag & 7 {
		case 0:
			if v, n = binary.Uvarint(b); n <= 0 {
				return bad
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return bad
			}
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return bad
			}
			data, b = b[n:n+int(size)], b[n+int(size):]
		case 5:
			if len(b) < 4 {
				return bad
			}
			v, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		default:
			return bad
		}
		if err := f(int(tag>>3), v, data); err != nil {
			return err
		}
	}
	return nil
}

// parseSentencePiece reads a ModelProto.
func parseSentencePiece(data []byte, o *opening) (*spFile, error) {
	f := &spFile{kind: 1, spSpec: spSpec{prefix: true, collapse: true, space: true}, unkSurface: " \u2047 "}
	size := 0
	err := protoFields(data, func(field int, _ uint64, data []byte) error {
		switch field {
		case 1:
			p := spPiece{kind: pieceNormal}
			err := protoFields(data, func(field int, v uint64, data []byte) error {
				switch field {
				case 1:
					p.text = string(data)
				case 2:
					p.score = math.Float32frombits(uint32(v))
				case 3:
					p.kind = int(v)
				}
				return nil
			})
			if err == nil && (!utf8.ValidString(p.text) || p.text == "" || p.score != p.score) {
				err = fmt.Errorf("piece %d is invalid", len(f.pieces))
			}
			if size += len(p.text); err == nil && (size > maxTokenBytes || len(f.pieces) >= maxTokens) {
				err = fmt.Errorf("the vocabulary exceeds %d tokens or %d bytes", maxTokens, maxTokenBytes)
			}
			if err == nil && !o.keep(len(p.text)+16+2*int(unsafe.Sizeof(p))+entryBytes) {
				err = o.err
			}
			f.pieces = append(f.pieces, p)
			return err
		case 2:
			return protoFields(data, func(field int, v uint64, data []byte) error {
				switch field {
				case 3:
					f.kind = int(v)
				case 24:
					f.suffix = v != 0
				case 35:
					f.byteFallback = v != 0
				case 44:
					f.unkSurface = string(data)
				}
				return nil
			})
		case 3:
			return f.spSpec.parse(data)
		case 5:
			d := &spSpec{}
			if err := d.parse(data); err != nil {
				return err
			}
			if len(d.charsmap) > 0 {
				f.denormalizer = d
			}
		}
		return nil
	})
	if err == nil && !utf8.ValidString(f.unkSurface) {
		err = errors.New("unk_surface is not valid UTF-8")
	}
	if err == nil && f.kind != 1 && f.kind != 2 {
		err = fmt.Errorf("model type %d is not supported, want 1 (Unigram) or 2 (BPE)", f.kind)
	}
	return f, err
}

// loadSentencePiece reads a SentencePiece model. Its ids are those of SentencePiece.
func (f *files) loadSentencePiece(p *parts, data []byte) error {
	sp, err := parseSentencePiece(data, f.opening)
	if err != nil {
		return err
	}
	m := &spModel{ids: make(map[string]int32, len(sp.pieces)), pieces: sp.pieces, file: sp, unk: -1,
		normal: newTrie(0, f.opening)}
	n := &spNormalizer{spec: &sp.spSpec, suffix: sp.suffix}
	m.lowest, m.highest = math.MaxFloat32, -math.MaxFloat32
	for i, q := range sp.pieces {
		id := int32(i)
		if _, ok := m.ids[q.text]; ok {
			return fmt.Errorf("piece %q occurs twice", q.text)
		}
		m.ids[q.text] = id
		switch q.kind {
		case pieceNormal:
			m.lowest, m.highest = min(m.lowest, q.score), max(m.highest, q.score)
			m.normal.add(q.text, id)
		case pieceUserDefined:
			m.normal.add(q.text, id)
			if n.user == nil {
				n.user = newTrie(0, f.opening)
			}
			n.user.add(q.text, id)
		case pieceUnused:
			m.normal.add(q.text, id)
		case pieceUnknown:
			if m.unk >= 0 {
				return errors.New("there are several unknown pieces")
			}
			m.unk = id
		case pieceControl:
			p.added.special[q.text] = true
		case pieceByte:
		default:
			return fmt.Errorf("piece type %d is not supported", q.kind)
		}
	}
	if m.unk < 0 {
		return errors.New("there is no unknown piece")
	}
	for b := range m.bytes {
		id, ok := m.ids[byteToken(byte(b))]
		if !ok && sp.byteFallback {
			return fmt.Errorf("piece %s is missing", byteToken(byte(b)))
		}
		m.bytes[b] = id
	}
	m.user = n.user
	if len(sp.charsmap) > 0 {
		if n.rules, err = parsePrecompiled(sp.charsmap); err != nil {
			return err
		}
	}
	d := &spDecoder{file: sp, unk: sp.pieces[m.unk].text, special: p.added.special}
	if sp.denormalizer != nil {
		rules, err := parsePrecompiled(sp.denormalizer.charsmap)
		if err != nil {
			return fmt.Errorf("denormalizer: %w", err)
		}
		d.denormalizer = &spNormalizer{spec: sp.denormalizer, rules: rules}
	}
	p.normalizer, p.model, p.decoder = n, m, d
	if f.folder {
		return f.sentencePieceClass(p, m)
	}
	return nil
}

// sentencePieceClass adds the special tokens that the class in tokenizer_config.json adds.
func (f *files) sentencePieceClass(p *parts, m *spModel) error {
	bos, eos := false, false
	switch class := strings.TrimSuffix(f.config.Class, "Fast"); class {
	case "":
	case "LlamaTokenizer":
		bos = true
	case "T5Tokenizer":
		eos = true
	default:
		return fmt.Errorf(
			"tokenizer_class %s with a SentencePiece model is not supported; convert it to tokenizer.json",
			f.config.Class)
	}
	o := &object{fields: f.raw}
	if o.has("add_bos_token") {
		bos = o.bool("add_bos_token")
	}
	if o.has("add_eos_token") {
		eos = o.bool("add_eos_token")
	}
	if o.err != nil {
		return o.err
	}
	t := &template{}
	add := func(on bool, token, fallback string, before bool) error {
		if !on {
			return nil
		}
		if token == "" {
			token = fallback
		}
		id, ok := m.ids[token]
		if !ok {
			return fmt.Errorf("special token %q is not in the vocabulary", token)
		}
		piece := templatePiece{text: -1, ids: []int32{id}, tokens: []string{token}}
		t.addedSingle++
		t.addedPair += 2
		if before {
			t.single = append([]templatePiece{piece}, t.single...)
			second := piece
			second.typeID = 1
			t.pair = []templatePiece{piece, t.pair[0], second, t.pair[1]}
			return nil
		}
		t.single = append(t.single, piece)
		n := len(t.pair) / 2
		second := piece
		second.typeID = t.pair[len(t.pair)-1].typeID
		pair := append(append([]templatePiece{}, t.pair[:n]...), piece)
		t.pair = append(append(pair, t.pair[n:]...), second)
		return nil
	}
	t.single = []templatePiece{{text: 0}}
	t.pair = []templatePiece{{text: 0}, {text: 1, typeID: 1}}
	if err := add(bos, f.config.BOS, "<s>", true); err != nil {
		return err
	}
	if err := add(eos, f.config.EOS, "</s>", false); err != nil {
		return err
	}
	if bos || eos {
		p.post = t
	}
	return nil
}

// spNormalizer is SentencePiece's own normalizer, which looks up the longest match.
type spNormalizer struct {
	spec   *spSpec
	suffix bool
	rules  *precompiled
	user   *trie // user-defined pieces, which are not normalized
}

// next returns what the start of s becomes, and how much of s that is.
func (n *spNormalizer) next(s []byte, sc *scratch) ([]byte, int) {
	if n.user != nil {
		k, _, read := n.user.longest(s)
		sc.step(read)
		if k > 0 {
			return s[:k], k
		}
	}
	if n.rules != nil {
		if out, k := n.rules.longest(s, sc); k > 0 {
			return out, k
		}
	}
	k := runeSize(s[0])
	return s[:k], k
}

// longest returns the replacement of the longest prefix of s in the trie, and its length.
func (p *precompiled) longest(s []byte, sc *scratch) ([]byte, int) {
	from, size, found := 0, 0, 0
	at := unitOffset(p.trie[0])
	for i, c := range s {
		if i > 0 && !sc.step(1) {
			break
		}
		at ^= uint32(c)
		if c == 0 || int(at) >= len(p.trie) {
			break
		}
		unit := p.trie[at]
		if unit&(1<<31|0xFF) != uint32(c) {
			break
		}
		at ^= unitOffset(unit)
		if unit>>8&1 == 1 {
			v, ok := p.value(at)
			if !ok {
				break
			}
			from, size = v, i+1
			if found++; found == 32 { // SentencePiece asks for this many matches
				break
			}
		}
	}
	if size == 0 {
		return nil, 0
	}
	return p.replacement(from), size
}

func (n *spNormalizer) normalize(t *text, sc *scratch) error {
	f := n.spec
	s := t.s
	at := 0
	for f.collapse && at < len(s) {
		out, k := n.next(s[at:], sc)
		if string(out) != " " || sc.err != nil {
			break
		}
		at += k
	}
	e := edit{t: t, sc: sc, from: len(sc.bytes), spans: len(sc.spans)}
	space := " "
	if f.space {
		space = spaceSymbol
	}
	put := func(s string, v span) {
		if !sc.room(len(s), len(s)) {
			return
		}
		sc.bytes = append(sc.bytes, s...)
		for range len(s) {
			sc.spans = append(sc.spans, v)
		}
	}
	if at < len(s) && f.prefix && !n.suffix {
		lo, _ := t.original(at, at+1)
		put(space, span{uint32(lo), uint32(lo)})
	}
	previous := f.collapse
	for at < len(s) {
		out, k := n.next(s[at:], sc)
		if !sc.step(len(out) + 1) {
			return sc.err
		}
		if len(sc.bytes)-e.from+len(out) > sc.limit {
			return errTextSize
		}
		lo, hi := t.original(at, at+k)
		v := span{uint32(lo), uint32(hi)}
		for previous && len(out) > 0 && out[0] == ' ' {
			out = out[1:]
		}
		for i := 0; i < len(out); {
			size := runeSize(out[i])
			if out[i] == ' ' {
				put(space, v)
			} else {
				put(string(out[i:i+size]), v)
			}
			i += size
		}
		if len(out) > 0 {
			previous = out[len(out)-1] == ' '
		}
		previous = previous && f.collapse
		at += k
	}
	for f.collapse && strings.HasSuffix(string(sc.bytes[max(e.from, len(sc.bytes)-len(space)):]), space) {
		sc.bytes = sc.bytes[:len(sc.bytes)-len(space)]
		sc.spans = sc.spans[:len(sc.spans)-len(space)]
	}
	if f.prefix && n.suffix && len(sc.bytes) > e.from {
		put(space, span{uint32(t.start + len(s)), uint32(t.start + len(s))})
	}
	return e.end()
}

// spModel is a model of SentencePiece, Unigram or BPE, with its float32 scores.
type spModel struct {
	file            *spFile
	pieces          []spPiece
	ids             map[string]int32
	normal          *trie // normal, user-defined and unused pieces
	user            *trie
	unk             int32
	lowest, highest float32
	bytes           [256]int32
}

func (m *spModel) id(token string) (int32, bool) { id, ok := m.ids[token]; return id, ok }

func (m *spModel) token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(m.pieces) {
		return "", false
	}
	return m.pieces[id].text, true
}

func (m *spModel) size() int { return len(m.pieces) }

func (m *spModel) tokenize(s []byte, sc *scratch, out []token) ([]token, error) {
	first := len(out)
	var err error
	if m.file.kind == 1 {
		out, err = m.unigram(s, sc, out)
	} else {
		out, err = m.bpe(s, sc, out)
	}
	if err != nil {
		return out, err
	}
	found := append(sc.tokens[:0], out[first:]...)
	sc.tokens = found
	out = out[:first]
	previous := false
	for _, t := range found {
		unknown := t.id == m.unk
		switch {
		case unknown && m.file.byteFallback:
			for k := t.lo; k < t.hi; k++ {
				out = append(out, token{id: m.bytes[s[k]], lo: t.lo, hi: t.hi})
			}
		case unknown && previous:
			out[len(out)-1].hi = t.hi
		default:
			out = append(out, token{id: t.id, lo: t.lo, hi: t.hi, surface: unknown})
		}
		previous = unknown
	}
	return out, nil
}

// unigram is Viterbi's algorithm with the scores of SentencePiece.
func (m *spModel) unigram(s []byte, sc *scratch, out []token) ([]token, error) {
	type node struct {
		score     float32
		start, id int32
	}
	if !sc.take(len(s) * int(unsafe.Sizeof(node{}))) {
		return out, sc.err
	}
	path := make([]node, len(s)+1)
	for i := range path[1:] {
		path[i+1].start = -1
	}
	unkScore := m.lowest - unknownPenalty
	for at := 0; at < len(s); {
		size, single := runeSize(s[at]), false
		n := int32(0)
		i := at
		for ; i < len(s); i++ {
			if n = m.normal.child(n, s[i]); n < 0 {
				break
			}
			id := m.normal.values[n]
			if id < 0 || m.pieces[id].kind == pieceUnused {
				continue
			}
			score := m.pieces[id].score
			if m.pieces[id].kind == pieceUserDefined {
				score = float32(float64(float32(i+1-at)*m.highest) - 0.1)
			}
			score += path[at].score
			if t := &path[i+1]; t.start < 0 || score > t.score {
				*t = node{score, int32(at), id}
			}
			single = single || i+1 == at+size
		}
		if err := sc.poll(i - at); err != nil {
			return out, err
		}
		if !single {
			score := unkScore + path[at].score
			if t := &path[at+size]; t.start < 0 || score > t.score {
				*t = node{score, int32(at), m.unk}
			}
		}
		at += size
	}
	first := len(out)
	for end := len(s); end > 0; end = int(path[end].start) {
		out = append(out, token{id: path[end].id, lo: uint32(path[end].start), hi: uint32(end)})
	}
	for i, j := first, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, nil
}
