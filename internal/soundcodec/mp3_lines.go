package soundcodec

import (
	"encoding/binary"
	"strconv"
)

// mp3Bits reads bits, the highest first. The data goes on for mp3Pad bytes after its last bit.
type mp3Bits struct {
	data []byte
	at   int // in bits
}

// mp3Pad is the number of bytes that may be read beyond the end: of scale factors, 18, and of the 8
// that peek reads.
const mp3Pad = 32

// peek returns the next 57 bits or more, from bit 63 down.
func (r *mp3Bits) peek() uint64 {
	return binary.BigEndian.Uint64(r.data[r.at>>3:]) << (r.at & 7)
}

// bits returns the next n bits, at most 32.
func (r *mp3Bits) bits(n int) int {
	v := r.peek() >> (64 - n)
	r.at += n
	return int(v)
}

func (r *mp3Bits) bit() bool { return r.bits(1) == 1 }

// mp3Codes holds prefix codes as trees of 256 entries a node, which 8 bits select. An entry is a
// symbol plus 256 times the bits of its rest, or mp3Link plus the index of a node.
type mp3Codes struct {
	nodes [][256]uint16
	roots [34]int // by the number of a table. 0: all values are 0
}

const mp3Link = 1 << 15

// add adds a code. Its text has three characters for each symbol, in the order of the code words:
// the symbol in hexadecimal, and the bits of its word as a digit of base 36.
func (c *mp3Codes) add(text string) (root int) {
	root = len(c.nodes)
	c.nodes = append(c.nodes, [256]uint16{})
	word := uint32(0)
	for ; text != ""; text = text[3:] {
		symbol, err := strconv.ParseUint(text[:2], 16, 8)
		size, err2 := strconv.ParseUint(text[2:3], 36, 8)
		if err != nil || err2 != nil {
			panic("soundcodec: table of MP3: " + text[:3])
		}
		node, rest := root, word
		word += 1 << (32 - size)
		for ; size > 8; size -= 8 {
			e := &c.nodes[node][rest>>24]
			if *e == 0 {
				*e = mp3Link | uint16(len(c.nodes))
				node = len(c.nodes)
				c.nodes = append(c.nodes, [256]uint16{})
			} else {
				node = int(*e &^ mp3Link)
			}
			rest <<= 8
		}
		for i := range 1 << (8 - size) {
			c.nodes[node][int(rest>>24)+i] = uint16(size)<<8 | uint16(symbol)
		}
	}
	return root
}

// symbol returns the symbol that the bits of v begin with, and its bits.
func (c *mp3Codes) symbol(root int, v uint64) (symbol, n int) {
	e := c.nodes[root][v>>56]
	for e&mp3Link != 0 {
		v <<= 8
		n += 8
		e = c.nodes[e&^mp3Link][v>>56]
	}
	return int(e & 255), n + int(e>>8)
}

func newMP3Codes() *mp3Codes {
	c := &mp3Codes{nodes: make([][256]uint16, 1)}
	for _, t := range mp3CodeTexts {
		c.roots[t.table] = c.add(t.text)
	}
	for i := 17; i < 32; i++ { // they differ in the bits that follow 15
		if i != 24 {
			c.roots[i] = c.roots[i&^7]
		}
	}
	return c
}

// mp3Extra has the bits that follow a value of 15, by table from 16 on.
var mp3Extra = [16]int{1, 2, 3, 4, 6, 8, 10, 13, 4, 5, 6, 7, 8, 9, 11, 13}

// readLines reads the quantized lines: pairs by three tables, then quadruples of -1 to 1, up to a
// bit. The rest is 0.
func (g *mp3Granule) readLines(codes *mp3Codes, r *mp3Bits, end int) {
	at := 0
	for i, table := range g.tables {
		stop := min(g.ends[i], 2*g.pairs)
		root, extra := codes.roots[table], 0
		if root == 0 {
			clear(g.lines[at:max(at, stop)])
			at = max(at, stop)
			continue
		}
		if table >= 16 {
			extra = mp3Extra[table-16]
		}
		for ; at < stop && r.at < end; at += 2 {
			v := r.peek() // 47 bits are enough
			symbol, n := codes.symbol(root, v)
			v <<= n
			for j, x := range [2]int{symbol >> 4, symbol & 15} {
				if x == 15 {
					x += int(v >> (64 - extra))
					v <<= extra
					n += extra
				}
				if x != 0 {
					if int64(v) < 0 {
						x = -x
					}
					v <<= 1
					n++
				}
				g.lines[at+j] = int16(x)
			}
			r.at += n
		}
	}
	root := codes.roots[32+g.quads]
	for at+4 <= len(g.lines) && r.at < end {
		v := r.peek()
		symbol, n := codes.symbol(root, v)
		v <<= n
		for j := range 4 {
			x := symbol >> (3 - j) & 1
			if x != 0 {
				if int64(v) < 0 {
					x = -1
				}
				v <<= 1
				n++
			}
			g.lines[at+j] = int16(x)
		}
		if r.at += n; r.at <= end { // else the bits are padding
			at += 4
		}
	}
	g.used = at
	clear(g.lines[at:])
}
