package tokenizer

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"sync"
)

// The Unicode properties of this package are those that tokenizers 0.23.3 has, which
// links libraries of several Unicode versions. _tables/generate.py reads them from its
// behavior for every code point.

// property is a set of binary properties of a code point.
type property uint32

const (
	onigSpace         property = 1 << iota // \s of Oniguruma
	onigWord                               // \w of Oniguruma
	onigDigit                              // \d of Oniguruma
	regexWord                              // \w of Rust's regex
	regexSpace                             // \s of Rust's regex
	isSpace                                // char::is_whitespace
	isNumeric                              // char::is_numeric
	isPunct                                // ASCII punctuation and categories P*
	isOther                                // categories C*, without \t, \n and \r
	isNonspacing                           // category Mn
	isMark                                 // categories M*
	composesLast                           // the last code point of a canonical composition
	hasNFD                                 // differs from its canonical decomposition
	hasNFKD                                // differs from its compatibility decomposition
	hasLower                               // differs from its lowercase form
	onigAlnum                              // [:alnum:] of Oniguruma
	isPictographic                         // Extended_Pictographic
	conjunctConsonant                      // InCB=Consonant
	conjunctExtend                         // InCB=Extend
	conjunctLinker                         // InCB=Linker
	isComposed                             // NFC leaves it alone unless a code point that combines follows

	onigLetter   // category L*, derived from the category
	onigNumber   // category N*
	onigUpper    // categories Lu, Lt, Lm, Lo, M*: the first class of o200k
	onigLower    // categories Ll, Lm, Lo, M*: the second class of o200k
	onigMark     // category M*
	onigPunctSym // categories P* and S*
)

// class holds the properties of a set of code points.
type class struct {
	flags    property
	category uint8 // index in categories
	script   uint8 // index in unicodeData.scripts; 0: no script
	group    uint8 // script of pre-tokenizer UnicodeScripts; 0 joins every other one
	combines uint8 // canonical combining class
	grapheme graphemeClass
}

// categories lists the general categories in the order of class.category.
var categories = [...]string{"Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
	"No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"}

const (
	maxRune    = 0x10FFFF
	blockShift = 7
	blockSize  = 1 << blockShift
)

// unicodeData is the table of all properties.
type unicodeData struct {
	classes  []class
	blocks   [(maxRune + 1) >> blockShift]uint16 // block of a code point, an index in units of blockSize
	index    []uint16                            // class of a code point in its block
	ascii    [128]property
	nfd      map[rune][]rune
	nfkd     map[rune][]rune // those that differ from nfd
	lower    map[rune][]rune
	compose  map[uint64]rune
	scripts  []string
	byScript map[string]uint8
}

var unicodeOnce = sync.OnceValue(loadUnicode)

// ucd is set by the first call of loadTables.
var ucd *unicodeData

// loadTables makes ucd available. Every exported function that opens or compiles calls it.
func loadTables() { unicodeOnce() }

func loadUnicode() *unicodeData {
	packed, err := base64.StdEncoding.DecodeString(unicodeTables)
	if err != nil {
		panic(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	next := func() int {
		v, shift := 0, 0
		for {
			b := data[0]
			data = data[1:]
			v |= int(b&0x7F) << shift
			if b < 0x80 {
				return v
			}
			shift += 7
		}
	}
	u := &unicodeData{}
	u.classes = make([]class, next())
	for i := range u.classes {
		c := &u.classes[i]
		c.category, c.script, c.group = uint8(next()), uint8(next()), uint8(next())
		c.combines, c.grapheme, c.flags = uint8(next()), graphemeClass(next()), property(next())
		c.flags |= derived(categories[c.category])
	}
	flat := make([]uint16, maxRune+1)
	at := 0
	for range next() {
		n, k := next(), uint16(next())
		for range n {
			flat[at] = k
			at++
		}
	}
	seen := map[[blockSize]uint16]uint16{}
	for i := range u.blocks {
		block := [blockSize]uint16(flat[i*blockSize:])
		k, ok := seen[block]
		if !ok {
			k = uint16(len(seen))
			seen[block] = k
			u.index = append(u.index, block[:]...)
		}
		u.blocks[i] = k
	}
	for i := range u.ascii {
		u.ascii[i] = u.classes[flat[i]].flags
	}
	maps := func() map[rune][]rune {
		n := next()
		m := make(map[rune][]rune, n)
		c := 0
		for range n {
			c += next()
			s := make([]rune, next())
			for i := range s {
				s[i] = rune(next())
			}
			m[rune(c)] = s
		}
		return m
	}
	u.nfd, u.nfkd, u.lower = maps(), maps(), maps()
	n := next()
	u.compose = make(map[uint64]rune, n)
	for range n {
		a, b, c := next(), next(), next()
		u.compose[uint64(a)<<32|uint64(b)] = rune(c)
	}
	u.scripts = append(u.scripts, "")
	u.byScript = map[string]uint8{}
	for i := range next() {
		n := next()
		u.scripts = append(u.scripts, string(data[:n]))
		u.byScript[string(data[:n])] = uint8(i + 1)
		data = data[n:]
	}
	ucd = u
	return u
}

// derived returns the properties that follow from a general category.
func derived(category string) property {
	var p property
	switch category[0] {
	case 'L':
		p = onigLetter
	case 'N':
		p = onigNumber
	case 'P', 'S':
		p = onigPunctSym
	case 'M':
		p = onigMark | onigUpper | onigLower
	}
	switch category {
	case "Lu", "Lt":
		p |= onigUpper
	case "Ll":
		p |= onigLower
	case "Lm", "Lo":
		p |= onigUpper | onigLower
	}
	return p
}

// of returns the class of a code point. Code points beyond U+10FFFF do not occur.
func (u *unicodeData) of(r rune) *class {
	return &u.classes[u.index[int(u.blocks[r>>blockShift])<<blockShift|int(r&(blockSize-1))]]
}

// props returns the binary properties of a code point.
func (u *unicodeData) props(r rune) property {
	if r < 128 {
		return u.ascii[r]
	}
	return u.of(r).flags
}

func (u *unicodeData) is(r rune, p property) bool { return u.props(r)&p != 0 }
