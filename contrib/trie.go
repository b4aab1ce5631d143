package contrib

import (
	"fmt"
	"strconv"
	"strings"
)

// trie finds the longest of many tokens that a text begins with. Characters are bytes or code
// points.
type trie[T byte | rune] struct {
	next map[trieEdge[T]]int32
	ids  []int64 // of the nodes, −1 for none
}

type trieEdge[T byte | rune] struct {
	node int32
	char T
}

// maxTrie limits the nodes of a trie, which take some 50 bytes each.
const maxTrie = 1 << 22

func newTrie[T byte | rune]() *trie[T] {
	return &trie[T]{next: map[trieEdge[T]]int32{}, ids: []int64{-1}}
}

func (t *trie[T]) add(text []T, id int64) error {
	if len(text) > maxTrie-len(t.ids) {
		return fmt.Errorf("the tokens have more than %d characters", maxTrie)
	}
	at := int32(0)
	for _, c := range text {
		e := trieEdge[T]{at, c}
		k, ok := t.next[e]
		if !ok {
			k = int32(len(t.ids))
			t.next[e] = k
			t.ids = append(t.ids, -1)
		}
		at = k
	}
	t.ids[at] = id
	return nil
}

// longest returns the size and the id of the longest token that a text begins with, or 0 and −1,
// and how many of its characters begin a token.
func (t *trie[T]) longest(text []T) (size int, id int64, begins int) {
	id = -1
	at := int32(0)
	for i, c := range text {
		k, ok := t.next[trieEdge[T]{at, c}]
		if !ok {
			break
		}
		if at, begins = k, i+1; t.ids[at] >= 0 {
			size, id = i+1, t.ids[at]
		}
	}
	return size, id, begins
}

// parseTrieVocab reads lines of an id, a string as a literal of Python, and its size in bytes, as
// the vocabularies of RWKV have them.
func parseTrieVocab(text string) (map[int64]string, error) {
	tokens := map[int64]string{}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		first, last := strings.IndexByte(line, ' '), strings.LastIndexByte(line, ' ')
		if first < 0 || first == last {
			return nil, fmt.Errorf("attribute vocab: line %q must be an id, a string and its size", line)
		}
		id, err := strconv.ParseInt(line[:first], 10, 32)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("attribute vocab: line %q must begin with a positive id", line)
		}
		token, ok := unquote(line[first+1 : last])
		if size, err := strconv.Atoi(line[last+1:]); !ok || err != nil || size != len(token) || size == 0 {
			return nil, fmt.Errorf("attribute vocab: line %q must have a string and its size in bytes", line)
		}
		tokens[id] = token
	}
	return tokens, nil
}

// unquote returns the value of a string or bytes literal of Python.
func unquote(s string) (string, bool) {
	s, raw := strings.CutPrefix(s, "b")
	n := len(s)
	if n < 2 || s[0] != '"' && s[0] != '\'' || s[n-1] != s[0] {
		return "", false
	}
	var b strings.Builder
	for s = s[1 : n-1]; s != ""; {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		if len(s) == 1 {
			return "", false
		}
		size := 0 // hexadecimal digits
		switch c := s[1]; c {
		case 'n', 'r', 't':
			b.WriteByte(map[byte]byte{'n': '\n', 'r': '\r', 't': '\t'}[c])
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'x', 'X':
			size = 2
		case 'u':
			size = 4
		case 'U':
			size = 8
		default:
			return "", false
		}
		s = s[2:]
		if size == 0 {
			continue
		}
		if len(s) < size {
			return "", false
		}
		v, err := strconv.ParseUint(s[:size], 16, 32)
		if err != nil || v > 0x10FFFF || v >= 0xD800 && v <= 0xDFFF {
			return "", false
		}
		if size == 2 && raw {
			b.WriteByte(byte(v))
		} else {
			writeRune(&b, rune(v))
		}
		s = s[size:]
	}
	return b.String(), true
}
