package contrib

import (
	"fmt"
	"strconv"
	"strings"
)

// byteTrie finds the longest of many strings that a text begins with.
type byteTrie struct {
	next map[trieEdge]int32
	ids  []int64 // of the nodes, −1 for none
}

type trieEdge struct {
	node int32
	char byte
}

func newByteTrie() *byteTrie { return &byteTrie{next: map[trieEdge]int32{}, ids: []int64{-1}} }

func (t *byteTrie) add(s string, id int64) {
	at := int32(0)
	for i := range len(s) {
		e := trieEdge{at, s[i]}
		k, ok := t.next[e]
		if !ok {
			k = int32(len(t.ids))
			t.next[e] = k
			t.ids = append(t.ids, -1)
		}
		at = k
	}
	t.ids[at] = id
}

// longest returns the size and the id of the longest string that s begins with, or 0 and −1.
func (t *byteTrie) longest(s string) (n int, id int64) {
	id = -1
	at := int32(0)
	for i := range len(s) {
		k, ok := t.next[trieEdge{at, s[i]}]
		if !ok {
			break
		}
		if at = k; t.ids[at] >= 0 {
			n, id = i+1, t.ids[at]
		}
	}
	return n, id
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
