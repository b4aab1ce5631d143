package soundcodec

import (
	"math"
	"sync"
)

// mp3Bands has the widths of bands of a rate. Bands of short blocks have three windows.
type mp3Bands struct {
	long        [22]uint8
	short       [39]uint8
	mixed       []uint8
	longOfMixed int // bands of mixed blocks that are long
}

// mp3Tables holds what decoders share.
type mp3Tables struct {
	codes   *mp3Codes
	bands   [9]mp3Bands
	powers  [8207]float32  // i^(4/3)
	window  [512]float32   // of synthesis
	blocks  [4][36]float32 // windows by type of block; the second has 12 elements
	alias   [8][2]float32  // cosines and sines for lines that mirror each other between subbands
	halves  [32]float32    // 1/(2cos(π(n+½)/N)) at N/2+n, for N of 2 to 32
	cos6    [6][6]float32  // cos(π(2n+1)(2k+1)/24)
	cos9    [9][5]float32  // cos(πn(2k+1)/18)
	twice9  [9]float32     // 2cos(π(2k+1)/36)
	twice18 [18]float32    // 2cos(π(2k+1)/72)
}

var (
	mp3Once   sync.Once
	mp3Shared mp3Tables
)

// mp3SharedTables returns the tables. No initializer refers to them, so that programs without sound
// do not contain them.
func mp3SharedTables() *mp3Tables {
	mp3Once.Do(mp3Shared.fill)
	return &mp3Shared
}

func (t *mp3Tables) fill() {
	t.codes = newMP3Codes()
	for i := range t.bands {
		b, starts := &t.bands[i], &mp3Starts[i]
		for k := range b.long {
			b.long[k] = uint8(starts.long[k+1] - starts.long[k])
		}
		for k := range b.short {
			b.short[k] = uint8(starts.short[k/3+1] - starts.short[k/3])
		}
		for starts.long[b.longOfMixed] < 3*starts.short[3] {
			b.longOfMixed++
		}
		b.mixed = append(append(b.mixed, b.long[:b.longOfMixed]...), b.short[9:]...)
	}
	for i := range t.powers {
		t.powers[i] = float32(float64(i) * math.Cbrt(float64(i)))
	}
	for i, v := range mp3Window {
		t.window[i] = float32(v) / (1 << 16)
		if i%64 != 0 {
			t.window[512-i] = -t.window[i]
		} else if i > 0 {
			t.window[512-i] = t.window[i]
		}
	}
	for i := range 36 {
		long, short := sine(i, 36), sine(i%6, 12)
		t.blocks[0][i] = long
		switch {
		case i < 6:
			t.blocks[1][i], t.blocks[3][i] = long, 0
		case i < 12:
			t.blocks[1][i], t.blocks[3][i] = long, short
		case i < 18:
			t.blocks[1][i], t.blocks[3][i] = long, 1
		case i < 24:
			t.blocks[1][i], t.blocks[3][i] = 1, long
		case i < 30:
			t.blocks[1][i], t.blocks[3][i] = sine(6+i%6, 12), long
		default:
			t.blocks[1][i], t.blocks[3][i] = 0, long
		}
	}
	for i := range 12 {
		t.blocks[2][i] = sine(i, 12)
	}
	for i, c := range []float64{-0.6, -0.535, -0.33, -0.185, -0.095, -0.041, -0.0142, -0.0037} {
		t.alias[i] = [2]float32{float32(1 / math.Sqrt(1+c*c)), float32(c / math.Sqrt(1+c*c))}
	}
	for half := 1; half <= 16; half *= 2 {
		for i := range half {
			t.halves[half+i] = 0.5 / cosine(2*i+1, 4*half)
		}
	}
	for n := range t.cos6 {
		for k := range t.cos6[n] {
			t.cos6[n][k] = cosine((2*n+1)*(2*k+1), 24)
		}
	}
	for n := range t.cos9 {
		for k := range t.cos9[n] {
			t.cos9[n][k] = cosine(n*(2*k+1), 18)
		}
	}
	for k := range t.twice9 {
		t.twice9[k] = 2 * cosine(2*k+1, 36)
	}
	for k := range t.twice18 {
		t.twice18[k] = 2 * cosine(2*k+1, 72)
	}
}

// sine returns sin(π(i+½)/n).
func sine(i, n int) float32 { return float32(math.Sin(math.Pi * (float64(i) + 0.5) / float64(n))) }

// cosine returns cos(πi/n).
func cosine(i, n int) float32 { return float32(math.Cos(math.Pi * float64(i) / float64(n))) }

// mp3Sizes are the bits of scale factors of lower and upper bands of MPEG-1, by scalefac_compress.
var mp3Sizes = [16][2]int{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {3, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {2, 3},
	{3, 1}, {3, 2}, {3, 3}, {4, 2}, {4, 3}}

// mp3Groups are the numbers of scale factors of MPEG-2 that have one size: by the kind of
// scalefac_compress, of intensity stereo from 3 on, and of long, short and mixed blocks.
var mp3Groups = [6][3][4]int{
	{{6, 5, 5, 5}, {9, 9, 9, 9}, {6, 9, 9, 9}},
	{{6, 5, 7, 3}, {9, 9, 12, 6}, {6, 9, 12, 6}},
	{{11, 10, 0, 0}, {18, 18, 0, 0}, {15, 18, 0, 0}},
	{{7, 7, 7, 0}, {12, 12, 12, 0}, {6, 15, 12, 0}},
	{{6, 6, 6, 3}, {12, 9, 9, 6}, {6, 12, 9, 6}},
	{{8, 8, 5, 0}, {15, 12, 9, 0}, {6, 18, 9, 0}},
}

// mp3Preemphasis is added to scale factors of long blocks if preflag is set.
var mp3Preemphasis = [22]int{11: 1, 1, 1, 1, 2, 2, 3, 3, 3, 2}

// mp3Starts are the first lines of bands of long blocks, and of one window of short blocks, of
// 44.1, 48 and 32 kHz (table B.8 of ISO/IEC 11172-3), of their halves (table B.2 of ISO/IEC
// 13818-3), and of their quarters.
var mp3Starts = [9]struct {
	long  [23]int
	short [14]int
}{
	{[23]int{0, 4, 8, 12, 16, 20, 24, 30, 36, 44, 52, 62, 74, 90, 110, 134, 162, 196, 238, 288, 342, 418, 576},
		[14]int{0, 4, 8, 12, 16, 22, 30, 40, 52, 66, 84, 106, 136, 192}},
	{[23]int{0, 4, 8, 12, 16, 20, 24, 30, 36, 42, 50, 60, 72, 88, 106, 128, 156, 190, 230, 276, 330, 384, 576},
		[14]int{0, 4, 8, 12, 16, 22, 28, 38, 50, 64, 80, 100, 126, 192}},
	{[23]int{0, 4, 8, 12, 16, 20, 24, 30, 36, 44, 54, 66, 82, 102, 126, 156, 194, 240, 296, 364, 448, 550, 576},
		[14]int{0, 4, 8, 12, 16, 22, 30, 42, 58, 78, 104, 138, 180, 192}},
	{[23]int{0, 6, 12, 18, 24, 30, 36, 44, 54, 66, 80, 96, 116, 140, 168, 200, 238, 284, 336, 396, 464, 522, 576},
		[14]int{0, 4, 8, 12, 18, 24, 32, 42, 56, 74, 100, 132, 174, 192}},
	{[23]int{0, 6, 12, 18, 24, 30, 36, 44, 54, 66, 80, 96, 114, 136, 162, 194, 232, 278, 332, 394, 464, 540, 576},
		[14]int{0, 4, 8, 12, 18, 26, 36, 48, 62, 80, 104, 136, 180, 192}},
	{[23]int{0, 6, 12, 18, 24, 30, 36, 44, 54, 66, 80, 96, 116, 140, 168, 200, 238, 284, 336, 396, 464, 522, 576},
		[14]int{0, 4, 8, 12, 18, 26, 36, 48, 62, 80, 104, 134, 174, 192}},
	{[23]int{0, 6, 12, 18, 24, 30, 36, 44, 54, 66, 80, 96, 116, 140, 168, 200, 238, 284, 336, 396, 464, 522, 576},
		[14]int{0, 4, 8, 12, 18, 26, 36, 48, 62, 80, 104, 134, 174, 192}},
	{[23]int{0, 6, 12, 18, 24, 30, 36, 44, 54, 66, 80, 96, 116, 140, 168, 200, 238, 284, 336, 396, 464, 522, 576},
		[14]int{0, 4, 8, 12, 18, 26, 36, 48, 62, 80, 104, 134, 174, 192}},
	{[23]int{0, 12, 24, 36, 48, 60, 72, 88, 108, 132, 160, 192, 232, 280, 336, 400, 476, 566, 568, 570, 572, 574, 576},
		[14]int{0, 8, 16, 24, 36, 52, 72, 96, 124, 160, 162, 164, 166, 192}},
}

// mp3Window is the first half of the window of synthesis, times 2¹⁶ (table 3-B.3 of
// ISO/IEC 11172-3).
var mp3Window = [257]int{
	0, -1, -1, -1, -1, -1, -1, -2, -2, -2, -2, -3, -3, -4, -4, -5, -5, -6, -7, -7, -8, -9, -10, -11, -13, -14, -16,
	-17, -19, -21, -24, -26, -29, -31, -35, -38, -41, -45, -49, -53, -58, -63, -68, -73, -79, -85, -91, -97, -104,
	-111, -117, -125, -132, -139, -147, -154, -161, -169, -176, -183, -190, -196, -202, -208, 213, 218, 222, 225,
	227, 228, 228, 227, 224, 221, 215, 208, 200, 189, 177, 163, 146, 127, 106, 83, 57, 29, -2, -36, -72, -111,
	-153, -197, -244, -294, -347, -401, -459, -519, -581, -645, -711, -779, -848, -919, -991, -1064, -1137, -1210,
	-1283, -1356, -1428, -1498, -1567, -1634, -1698, -1759, -1817, -1870, -1919, -1962, -2001, -2032, -2057, -2075,
	-2085, -2087, -2080, -2063, 2037, 2000, 1952, 1893, 1822, 1739, 1644, 1535, 1414, 1280, 1131, 970, 794, 605,
	402, 185, -45, -288, -545, -814, -1095, -1388, -1692, -2006, -2330, -2663, -3004, -3351, -3705, -4063, -4425,
	-4788, -5153, -5517, -5879, -6237, -6589, -6935, -7271, -7597, -7910, -8209, -8491, -8755, -8998, -9219, -9416,
	-9585, -9727, -9838, -9916, -9959, -9966, -9935, -9863, -9750, -9592, -9389, -9139, -8840, -8492, -8092, -7640,
	-7134, 6574, 5959, 5288, 4561, 3776, 2935, 2037, 1082, 70, -998, -2122, -3300, -4533, -5818, -7154, -8540,
	-9975, -11455, -12980, -14548, -16155, -17799, -19478, -21189, -22929, -24694, -26482, -28289, -30112, -31947,
	-33791, -35640, -37489, -39336, -41176, -43006, -44821, -46617, -48390, -50137, -51853, -53534, -55178, -56778,
	-58333, -59838, -61289, -62684, -64019, -65290, -66494, -67629, -68692, -69679, -70590, -71420, -72169, -72835,
	-73415, -73908, -74313, -74630, -74856, -74992, 75038,
}

// mp3CodeTexts are the codes of tables B.7 of ISO/IEC 11172-3, as mp3Codes.add reads them. Symbols
// of pairs are 16x+y. Tables 32 and 33 are those of quadruples, A and B, with symbols 8v+4w+2x+y.
var mp3CodeTexts = []struct {
	table int
	text  string
}{
	{1, "113013102001"},
	{2, "226026125215205113013103001"},
	{3, "226026125215205103112012002"},
	{5, "338238327316137037307227126216026206113013103001"},
	{6, "337037236326306135315225025124214204013112103003"},
	{7, "" +
		"55a45a54a53a359449259529158518059349508439339248428147417407048238328038137317307227126215026206114013103" +
		"001"},
	{8, "" +
		"55b54b45a53935a44a259529059158518349439509339248428148417048408238328138318038308226026206124214112013103" +
		"002"},
	{9, "" +
		"559459358538549059448258528158517347437508048247427337407146416236326135315036306225025124214204113013103" +
		"003"},
	{10, "" +
		"77b67b76b57b75b66b47a74a56a65a37a73a46a55b54b63a27972964a07a70962945a35a06953a44a17871836926925a52a159519" +
		"34a43a168618608059509249429339049148418408238328038137317307227126216026206114013103001"},
	{11, "" +
		"77a67a76a75a66a47a74a57b55b56a65a37973946945a54a35a53a278728649079717178708368638608449259529059158627268" +
		"068167617518348508439339248428148418048408237327136316037307226215124025205113013103002"},
	{12, "" +
		"77a67a769579759669479749659568378739559278728468648178718079709368638458548448069059267627617168608358538" +
		"258528157517347437508048247427147336416236326407037306135315225124214025205004113013103"},
	{13, "" +
		"fejfcjfdiedhffgefgdfgeegcfgdegbfgfbgcegdcgafhe9hecfddffagcdgbefebf9fff9feafbdfdbf8fff8fccfaeg9eg8ef7fg7eg" +
		"f7edaeadfbcfcbff6f6fee8e5fe9ded9ef5ee7eacebbe4fef4ecafe6ff3e3fd8ded8e2fdf2d6ee9ce0fdc9e5eeabd7ded7e4edc8e" +
		"d6e3edb9d9beaae1fcf1cf0cbade5de4d8cd6dde3de2c2ed0ed1ece1ce0d5ddd5d7cdc7d4dd8bdb8dd4d9ada9d6cdc6c3dcd3d7bd" +
		"2dcd2c1dcb7c5cdc5d99d7adc3ca7d97d4bcd1b0dcd0c8aca8c4ccc4c6bcb6c3cb2cbc2b5bbb5c89c1cbc1b98c0ccc0bb4c6aca6c" +
		"79c3bbb3b88c5ac2bba5c69ca4b78c87c94b77c76cb2a1bab1a0bbb0b96b4ab3aba3b59b95b2aaa2a1aaa1a0ab68ba0a86b49b93a" +
		"39b58b85b67b29a92a57b75b38a83a66b47b74b56b65b73b19991909a90a48a84a72a46b64b28982918937a27a17971955a07a70a" +
		"36a63a45a54a26a62a35a81808980916961906960953a44a259529059158518349439509249429339148417048408238328137317" +
		"037307227126216026206114014103001"},
	{15, "" +
		"ffdefdfeddfdeecfddcfdfcddededdbfdfbccedecdddcafcfacbecebccdcdcc9fcf9ceacbdcdbc8fcf8cccc9ece9c7fcf7cadcdac" +
		"bcc6fcaed0fdcbbf6b8ece8c5fc9dcf5b7ebe7bacbcabbbbd9c8dc4fbf4b3fbf3bd8be6b2fbf2b6ecf0c1fbf1b9cbc9b5ebabbbab" +
		"e5b7dbd7b4ebe4b8cbc8b3eb6dbd6be3b9bbb9b2ebaabe2b1ebe1b0ece0c5dbd5b7cbc7b4db8bbd4ab8b9aba9b6cbc6b3dbd3ad2a" +
		"2db0db1da7bab7ad1a5cbd0bc5a8aaa8a4cac4a6bab6a99b0cb3cac3a7aaa7aa6ac0b0bbc292ca5bab5a1ca89a98ac1a4bab4a6aa" +
		"3ba79ab3997a88a2ba5aab29a5a1bab19b0a69a96a4aaa4a78a87a3aaa395999592a9a291a9a190aaa0a68986949994939993977a" +
		"09a589859299679769929918199909489849579759389839669479288828188818749089809569659379739469278728648178558" +
		"718079709368638458548268628168069609358617538448257527157517058508347437247427337416147047236326407037136" +
		"316306225125215025205113014104003"},
	{16, "" +
		"efbfebdfbfdbcfbfcbbfbfbbafafab9fbf9bf8b8fa7faf7a6faf6aff85faf5a4f9f49f39f093facegechddhdefe9feagd9geeeedf" +
		"ebfbeecdedcfdbfaeecceadfdaf7efacfcaec9f7df5eebddf282f90f91f8f189edbcecbe8eee8e9dee7ebbe8ded8e6eee6d9cdabe" +
		"baee5ed7e4ede4e8cec8d3ed6ddd6e9beb9eaaee1dd4db8ea9e7bdb7ed0ee3c0ede0d5ddd5d7cdc7d4dd8bd9ad6cdc6d3dd5cdc5d" +
		"0dc8ada8d99d4cdb6d7ad3cc5bd89d1ccc0c98d79de2b2ec1ecd3c2dcd2cd1c3bc97d88d1dbc4c6bcc3ca7c2cbc2cb5cc1c0cc4bc" +
		"b4c6aca6cb3b5aca5c2bbb2b1bbb1b0bcb0c69c96c4aca4c78c87ca3b3ac59c2ab95c68ca1b86c77c94b49c57c67ba2a1aa0aba0b" +
		"39b93b58b85b29a92a76b09b19a91a90b48b84b75b38b83b66b28b82a47b74b18a81a80a08b56b37a73a65b46b27a72a64b55b07a" +
		"17971970a36a63a45a54a26a62916961906a60a53935a44a259529518159059349439509249429339148418049409238328137317" +
		"038308227126216026206114014103001"},
	{24, "" +
		"ef8fe8df8fd8cf8fc8bf8fb8fa7af89f8f97f878f87f8f776f7f675f7f574f7f473f7f372f7f27f171f8f080f9eebdebedbcebecb" +
		"ddbbebebbcdbdcbaebeabbdbdbbccb9ebe9badbdabbcbcbb8ebe8b9dbd9b7ebe7bacbff4cabbbb8dbd8b0ece0c0dbe6a6eb9cbc9a" +
		"5eabaae5aabb7dbd7ae4a8cac8a4eb2eb3ea6dad6ae3a9bab9aaaae2a1eae1a5dad5a7cac7a4da8bab8ad4a9aaa9a6cac6a3dad3a" +
		"2dad2a1da7bab7ad1a5cac5a8aaa8a99a4cac4a6bab6ad0b0cb3cac3a7aaa7a2cac2a5bab5a1ca89a98ac1a4bac0b0bb3bab0b0ab" +
		"1aab496aaa6a79a97aa0b09b90ab398892ba5aab29a5a1bab1a69a969a494aa78a8793a9a395999592a9a29a19689869779499949" +
		"39993958985929967976992919991948984957975938983966928982918947974981908a80a56965917907a70a738379279728468" +
		"648558718368638458548268628168618069609358538448258528158059509517348438247427337147417048408237327136316" +
		"037307226125215026206114014104004"},
	{32, "0b60f60d60e60760560950650350a50c5024014044084001"},
	{33, "0f40e40d40c40b40a4094084074064054044034024014004"},
}
