package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// tiktokenEncoding is an encoding of OpenAI: its pattern and special tokens.
type tiktokenEncoding struct {
	pattern string
	special map[string]int32
}

var tiktokenEncodings = map[string]tiktokenEncoding{
	"r50k_base": {patternGPT2, map[string]int32{"<|endoftext|>": 50256}},
	"p50k_base": {patternGPT2, map[string]int32{"<|endoftext|>": 50256}},
	"p50k_edit": {patternGPT2,
		map[string]int32{"<|endoftext|>": 50256, "<|fim_prefix|>": 50281, "<|fim_middle|>": 50282,
			"<|fim_suffix|>": 50283}},
	"cl100k_base": {patternLlama3, map[string]int32{"<|endoftext|>": 100257, "<|fim_prefix|>": 100258,
		"<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}},
	"o200k_base": {patternO200k, map[string]int32{"<|endoftext|>": 199999, "<|endofprompt|>": 200018}},
}

// maxDivided limits how many bytes are read to look up the parts of all tokens of a .tiktoken file.
const maxDivided = 1 << 32

// loadTiktoken reads lines of a token in base64 and its rank.
func (f *files) loadTiktoken(p *parts, name, data string, opts *Options) error {
	encoding := opts.Encoding
	if encoding == "" {
		encoding = strings.TrimSuffix(path.Base(name), ".tiktoken")
	}
	enc, ok := tiktokenEncodings[encoding]
	if !ok {
		return fmt.Errorf("encoding %q is not supported; set Options.Encoding", encoding)
	}
	if len(data) > 2*maxTokenBytes || strings.Count(data, "\n") > maxTokens {
		return fmt.Errorf("the vocabulary exceeds %d bytes or %d lines", 2*maxTokenBytes, maxTokens)
	}
	// A line takes its parts, an entry, and its bytes in another map.
	if !f.opening.take(256*(strings.Count(data, "\n")+1) + 4*len(data)) {
		return f.opening.err
	}
	var entries []vocabEntry
	raw := map[string]int32{}
	for i, line := range strings.Split(data, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		text, rank, ok := strings.Cut(line, " ")
		token, err := base64.StdEncoding.DecodeString(text)
		id, err2 := strconv.ParseUint(rank, 10, 31)
		if !ok || err != nil || err2 != nil || len(token) == 0 {
			return fmt.Errorf("line %d must be a token in base64 and a rank", i+1)
		}
		if _, ok := raw[string(token)]; ok {
			return fmt.Errorf("line %d: token occurs twice", i+1)
		}
		if id > 1<<22 {
			return fmt.Errorf("line %d: rank %d exceeds %d", i+1, id, 1<<22)
		}
		raw[string(token)] = int32(id)
		var chars strings.Builder
		for _, c := range token {
			chars.WriteRune(byteChars[c])
		}
		entries = append(entries, vocabEntry{chars.String(), int32(id)})
	}
	b := &bpe{vocab: newVocab(entries, f.opening), crossed: make([]uint64, 1<<14), ignoreMerges: true}
	largest := int32(0)
	pairs := 0
	for token, id := range raw {
		largest = max(largest, id)
		pairs += len(token) - 1
	}
	// Any two tokens merge whose text together is a token. The rank of the merge is its id.
	b.pairs = newPairTable(min(pairs, 8*len(raw))+16, f.opening)
	if !f.opening.keep(4*int(largest+1) + 1<<17) {
		return f.opening.err
	}
	b.results = make([]int32, largest+1)
	count, read := 0, int64(0)
	for token, id := range raw {
		b.results[id] = id
		if read += int64(len(token)) * int64(len(token)); read > maxDivided { // each look-up reads its part
			return errors.New("the tokens are too long: looking up their parts reads more than 4 GiB")
		}
		for k := 1; k < len(token); k++ {
			left, ok := raw[token[:k]]
			right, ok2 := raw[token[k:]]
			if !ok || !ok2 {
				continue
			}
			if count++; 2*count > len(b.pairs.keys) {
				return errors.New("the tokens can be divided in too many ways")
			}
			b.pairs.set(left, right, uint32(id))
			b.cross(byteChars[token[k-1]], byteChars[token[k]])
		}
	}
	b.index()
	if !b.setRaw(f.opening) {
		return errors.New("a byte has no token")
	}
	p.model = b
	p.pre = preTokenizerSequence{
		&patternSplit{pattern: builtinPattern(enc.pattern), behavior: isolated},
		&byteLevelSplit{raw: true},
	}
	p.decoder = decoderFunc(decodeByteLevel)
	for token, id := range enc.special {
		p.added.set(AddedToken{ID: int(id), Content: token, Special: true})
	}
	return nil
}

// loadVocabText reads vocab.txt, the vocabulary of BERT: a token on each line.
func (f *files) loadVocabText(p *parts, data string) error {
	switch f.config.Class {
	case "", "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer",
		"ElectraTokenizerFast", "MobileBertTokenizer", "MobileBertTokenizerFast":
	default:
		return fmt.Errorf("tokenizer_class %s with vocab.txt is not supported", f.config.Class)
	}
	if !utf8.ValidString(data) {
		return errors.New("the file is not valid UTF-8")
	}
	o := &object{fields: f.raw}
	option := func(name string, value bool) bool {
		if o.has(name) {
			return o.bool(name)
		}
		return value
	}
	b := &bertNormalizer{clean: true, chinese: option("tokenize_chinese_chars", true)}
	b.lower = option("do_lower_case", true)
	b.strip = option("strip_accents", b.lower)
	if o.err != nil {
		return o.err
	}
	if len(data) > maxTokenBytes || strings.Count(data, "\n") > maxTokens {
		return fmt.Errorf("the vocabulary exceeds %d bytes or %d lines", maxTokenBytes, maxTokens)
	}
	data = strings.TrimSuffix(data, "\n")
	lines := strings.Count(data, "\n") + 1
	if !f.opening.take(lines * int(unsafe.Sizeof(vocabEntry{}))) {
		return f.opening.err
	}
	entries := make([]vocabEntry, 0, lines)
	for line := range strings.SplitSeq(data, "\n") {
		token := strings.TrimRightFunc(line, func(r rune) bool { return ucd.is(r, isSpace) })
		entries = append(entries, vocabEntry{token, int32(len(entries))})
	}
	c := f.config
	name := func(token, fallback string) string {
		if token == "" {
			return fallback
		}
		return token
	}
	unk, cls, sep := name(c.Unknown, "[UNK]"), name(c.Classifier, "[CLS]"), name(c.Separator, "[SEP]")
	v := newVocab(entries, f.opening)
	p.model = newWordPiece(v, unk, "##", 100, f.opening)
	p.normalizer, p.decoder = b, &wordPieceDecoder{prefix: "##", cleanup: true}
	p.pre = preTokenizerSequence{removeSplit(isSpace), &classSplit{isPunct, isolated}}
	for _, t := range []string{name(c.Pad, "[PAD]"), unk, cls, sep, name(c.Mask, "[MASK]")} {
		if id, ok := v.ids[t]; ok {
			p.added.set(AddedToken{ID: int(id), Content: t, Special: true})
		}
	}
	clsID, ok := v.ids[cls]
	sepID, ok2 := v.ids[sep]
	if !ok || !ok2 {
		return fmt.Errorf("the special tokens %q and %q are not both in the vocabulary", cls, sep)
	}
	p.post = &bertProcessing{cls: cls, clsID: clsID, sep: sep, sepID: sepID}
	return nil
}

// loadVocabMerges reads vocab.json and merges.txt, the files of GPT-2 and RoBERTa.
func (f *files) loadVocabMerges(p *parts, name, data string) error {
	merges, err := f.read(strings.TrimSuffix(name, "vocab.json") + "merges.txt")
	if err != nil {
		return err
	}
	roberta := false
	switch strings.TrimSuffix(f.config.Class, "Fast") {
	case "", "GPT2Tokenizer":
	case "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer":
		roberta = true
	default:
		return fmt.Errorf("tokenizer_class %s with vocab.json is not supported", f.config.Class)
	}
	if !utf8.ValidString(data) || !utf8.ValidString(merges) {
		return errors.New("the file is not valid UTF-8")
	}
	r := &jsonReader{s: data, opening: f.opening}
	m := &modelFile{object: object{fields: map[string]any{}}, hasMerges: true}
	if m.vocab, err = r.vocabulary(); err == nil {
		err = r.end()
	}
	if err != nil {
		return err
	}
	if len(merges) > 4*maxTokenBytes || strings.Count(merges, "\n") > maxMerges {
		return fmt.Errorf("merges.txt exceeds %d bytes or %d lines", 4*maxTokenBytes, maxMerges)
	}
	if !f.opening.take((strings.Count(merges, "\n") + 1) * (16 + 2*int(unsafe.Sizeof(mergePair{})))) {
		return f.opening.err
	}
	for i, line := range strings.Split(strings.TrimSuffix(merges, "\n"), "\n") {
		if strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		if !ok || strings.Contains(right, " ") {
			return fmt.Errorf("merges.txt: line %d must be two tokens separated by a space", i+1)
		}
		m.merges = append(m.merges, mergePair{left, right})
	}
	if p.model, err = parseBPE(m, f.opening); err != nil {
		return err
	}
	o := &object{fields: f.raw}
	prefix := o.has("add_prefix_space") && o.bool("add_prefix_space")
	if o.err != nil {
		return o.err
	}
	p.pre = &byteLevelSplit{prefix: prefix, regex: true, pattern: builtinPattern(patternGPT2)}
	p.decoder = decoderFunc(decodeByteLevel)
	p.post = &byteLevelProcessing{}
	c := f.config
	next := p.nextID()
	add := func(token, fallback string, lstrip bool) (int32, error) {
		if token == "" {
			token = fallback
		}
		if token == "" {
			return 0, nil
		}
		if err := p.added.add(AddedToken{Content: token, LStrip: lstrip, Special: true}, p.model, nil,
			&next); err != nil {
			return 0, err
		}
		return p.added.byContent[token], nil
	}
	if !roberta {
		_, err := add(c.EOS, "<|endoftext|>", false)
		return err
	}
	post := &bertProcessing{roberta: true, trim: true, prefix: prefix, cls: c.Classifier, sep: c.Separator}
	if post.cls == "" {
		post.cls = "<s>"
	}
	if post.sep == "" {
		post.sep = "</s>"
	}
	if post.clsID, err = add(post.cls, "", false); err != nil {
		return err
	}
	if _, err = add(c.Pad, "<pad>", false); err != nil {
		return err
	}
	if post.sepID, err = add(post.sep, "", false); err != nil {
		return err
	}
	if _, err = add(c.Unknown, "<unk>", false); err != nil {
		return err
	}
	if _, err = add(c.Mask, "<mask>", true); err != nil {
		return err
	}
	p.post = post
	return nil
}
