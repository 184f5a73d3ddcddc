package leak

import "bytes"

// unescaper undoes percent signs and backslashes, and searches the text that results.
type unescaper struct {
	to   *matcher
	held []byte // the start of what may be an escape
}

func (u *unescaper) write(p []byte) {
	for len(u.held) > 0 && len(p) > 0 {
		u.held, p = append(u.held, p[0]), p[1:]
		if b, n := unescapeByte(u.held); n != 0 {
			held := u.held
			u.held = nil
			u.settle(held, b, n)
		}
	}
	for len(p) > 0 {
		at := bytes.IndexAny(p, `%\`)
		if at < 0 {
			u.put(p)
			return
		}
		u.put(p[:at])
		p = p[at:]
		b, n := unescapeByte(p)
		switch {
		case n == 0:
			u.held = append(u.held, p...) // less than an escape
			return
		case n < 0:
			u.put(p[:1])
			p = p[1:]
		default:
			u.decoded(b)
			p = p[n:]
		}
	}
}

// settle writes what was held: an escape and what follows it, or no escape.
func (u *unescaper) settle(held []byte, b byte, n int) {
	if n > 0 {
		u.decoded(b)
		u.write(held[n:])
		return
	}
	u.put(held[:1])
	u.write(held[1:])
}

func (u *unescaper) end() {
	u.put(u.held)
	u.held = nil
}

// put writes bytes that are not an escape. Only those near an undone escape are searched:
// the others are searched in the stream itself.
func (u *unescaper) put(p []byte) {
	near := 0
	if m := u.to; m.mark > 0 {
		near = max(0, min(len(p), m.s.longest-int(min(m.total-m.mark, int64(m.s.longest)))))
	}
	u.to.write(p[:near])
	u.to.passBytes(p[near:])
}

func (u *unescaper) decoded(b byte) {
	u.to.mark = u.to.total + 1
	u.to.write([]byte{b})
}

// unescapeByte returns the byte that p starts with in escaped form, and the length of
// that form: 0 if p is too short to tell, below 0 if it is none.
func unescapeByte(p []byte) (b byte, n int) {
	if p[0] == '%' {
		return hexByte(p, 1)
	}
	if len(p) == 1 {
		return 0, 0
	}
	switch p[1] {
	case 'x':
		return hexByte(p, 2)
	case 'u':
		if zeros := p[2:min(len(p), 4)]; string(zeros) != "00"[:len(zeros)] {
			return 0, -1
		}
		return hexByte(p, 4)
	case '/', '\\', '"', '\'':
		return p[1], 2
	}
	return 0, -1
}

// hexByte reads two hexadecimal digits at a place of p.
func hexByte(p []byte, at int) (b byte, n int) {
	for i := at; i < at+2; i++ {
		if i >= len(p) {
			return 0, 0
		}
		d := bytes.IndexByte([]byte("0123456789abcdef"), p[i]|0x20)
		if d < 0 || p[i] < '0' {
			return 0, -1
		}
		b = b<<4 | byte(d)
	}
	return b, at + 2
}
