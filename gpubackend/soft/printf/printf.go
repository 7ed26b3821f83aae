// SPDX-License-Identifier: Apache-2.0

// Package printf formats the messages of kernels' printf, as C does.
//
// Format and arguments come from a guest: widths and precisions are bounded, and the message ends
// where an argument can't be read. The caller owns what is written to.
package printf

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// Reader reads what a message is made of. It reports false after a fault.
type Reader interface {
	// Word reads size bytes, 4 or 8.
	Word(addr, size uint64) (word uint64, ok bool)
	// Text reads a string that ends with a byte 0.
	Text(addr uint64) (text string, ok bool)
}

// Format formats a message, whose arguments lie packed at args, each aligned to its size of 4 or 8
// bytes. It returns how many there were, and false after a fault.
func Format(format string, args uint64, r Reader) (message []byte, count int, ok bool) {
	p := printer{reader: r, args: args}
	p.print(format)
	return p.out.Bytes(), p.count, !p.failed
}

// printer formats one message.
type printer struct {
	reader Reader
	args   uint64
	count  int
	failed bool
	out    bytes.Buffer
}

// maxField bounds widths and precisions.
const maxField = 1 << 12

// next reads the next argument.
func (p *printer) next(size uint64) uint64 {
	p.args = (p.args + size - 1) &^ (size - 1)
	word, ok := p.reader.Word(p.args, size)
	if !ok {
		p.failed = true
		return 0
	}
	p.args += size
	p.count++
	return word
}

// conversionSpec is a conversion of a format: %[flags][width][.precision][length]verb.
type conversionSpec struct {
	flags     string
	width     int
	precision int
	wide      bool
	verb      byte
}

// print formats all of format.
func (p *printer) print(format string) {
	for format != "" && !p.failed {
		before, after, found := strings.Cut(format, "%")
		p.out.WriteString(before)
		if !found {
			return
		}
		if strings.HasPrefix(after, "%") {
			p.out.WriteByte('%')
			format = after[1:]
			continue
		}
		spec, rest, ok := p.parse(after)
		if !ok {
			p.out.WriteByte('%')
			format = after
			continue
		}
		p.convert(spec)
		format = rest
	}
}

// parse takes a conversion from the start of s.
func (p *printer) parse(s string) (conversionSpec, string, bool) {
	spec := conversionSpec{width: -1, precision: -1}
	flags := len(s) - len(strings.TrimLeft(s, "-+ #0"))
	spec.flags, s = s[:flags], s[flags:]
	spec.width, s = p.number(s)
	if spec.width < -1 {
		spec.flags += "-"
		spec.width = -spec.width
	}
	if strings.HasPrefix(s, ".") {
		if spec.precision, s = p.number(s[1:]); spec.precision < 0 {
			spec.precision = 0
		}
	}
	length := len(s) - len(strings.TrimLeft(s, "hlLqjzt"))
	spec.wide = strings.ContainsAny(s[:length], "lLqjzt")
	if s = s[length:]; s == "" || !strings.Contains("diouxXcsaAeEfFgGp", s[:1]) {
		return spec, s, false
	}
	spec.verb = s[0]
	return spec, s[1:], true
}

// number takes digits or * from the start of s; -1 if there are none.
func (p *printer) number(s string) (int, string) {
	if strings.HasPrefix(s, "*") {
		n := int(int32(p.next(4)))
		return max(min(n, maxField), -maxField), s[1:]
	}
	n, digits := 0, 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		n = min(n*10+int(s[digits]-'0'), maxField)
		digits++
	}
	if digits == 0 {
		return -1, s
	}
	return n, s[digits:]
}

// format is the format for package fmt.
func (spec conversionSpec) format(flags string, precision int, verb byte) string {
	f := "%" + flags
	if spec.width >= 0 {
		f += fmt.Sprint(spec.width)
	}
	if precision >= 0 {
		f += "." + fmt.Sprint(precision)
	}
	return f + string(verb)
}

func (p *printer) convert(spec conversionSpec) {
	size := uint64(4)
	if spec.wide || strings.IndexByte("saAeEfFgGp", spec.verb) >= 0 {
		size = 8
	}
	value := p.next(size)
	if p.failed {
		return
	}
	switch spec.verb {
	case 'd', 'i':
		if size == 4 {
			value = uint64(int64(int32(value)))
		}
		fmt.Fprintf(&p.out, spec.format(spec.intFlags(), spec.precision, 'd'), int64(value))
	case 'u':
		fmt.Fprintf(&p.out, spec.format(spec.intFlags(), spec.precision, 'd'), value)
	case 'o', 'x', 'X':
		fmt.Fprintf(&p.out, spec.format(spec.intFlags(), spec.precision, spec.verb), value)
	case 'c':
		p.text(spec, string([]byte{byte(value)}))
	case 's':
		p.str(spec, value)
	case 'p':
		text := "(nil)"
		if value != 0 {
			text = fmt.Sprintf("%#x", value)
		}
		p.text(spec, text)
	default:
		p.float(spec, math.Float64frombits(value))
	}
}

// intFlags drops the zero flag where a precision overrides it.
func (spec conversionSpec) intFlags() string {
	if spec.precision >= 0 || strings.Contains(spec.flags, "-") {
		return strings.ReplaceAll(spec.flags, "0", "")
	}
	return spec.flags
}

// text pads a text to the field's width.
func (p *printer) text(spec conversionSpec, text string) {
	pad := strings.Repeat(" ", max(spec.width-len(text), 0))
	if strings.Contains(spec.flags, "-") {
		p.out.WriteString(text + pad)
		return
	}
	p.out.WriteString(pad + text)
}

func (p *printer) str(spec conversionSpec, addr uint64) {
	text := "(null)"
	if addr != 0 {
		var ok bool
		if text, ok = p.reader.Text(addr); !ok {
			p.failed = true
			return
		}
	}
	if spec.precision >= 0 && spec.precision < len(text) {
		text = text[:spec.precision]
	}
	p.text(spec, text)
}

func (p *printer) float(spec conversionSpec, x float64) {
	lower := spec.verb >= 'a'
	if math.IsInf(x, 0) || x != x {
		p.text(spec, nonFinite(spec, x, lower))
		return
	}
	verb, precision := spec.verb, spec.precision
	switch verb {
	case 'a', 'A':
		p.text(spec, hexFloat(x, precision, lower))
		return
	case 'F':
		verb = 'f'
	}
	if precision < 0 {
		precision = 6
	}
	if precision == 0 && (verb == 'g' || verb == 'G') {
		precision = 1
	}
	fmt.Fprintf(&p.out, spec.format(spec.flags, precision, verb), x)
}

// nonFinite writes infinities and NaN as C does.
func nonFinite(spec conversionSpec, x float64, lower bool) string {
	text := "inf"
	if x != x {
		text = "nan"
	}
	if !lower {
		text = strings.ToUpper(text)
	}
	switch {
	case math.Signbit(x):
		return "-" + text
	case strings.Contains(spec.flags, "+"):
		return "+" + text
	case strings.Contains(spec.flags, " "):
		return " " + text
	}
	return text
}

// hexFloat writes x as %a does: an exponent of as many digits as it needs.
func hexFloat(x float64, precision int, lower bool) string {
	format := "%x"
	if precision >= 0 {
		format = fmt.Sprintf("%%.%dx", precision)
	}
	text := fmt.Sprintf(format, x)
	if i := strings.IndexByte(text, 'p'); i >= 0 && len(text) == i+4 && text[i+2] == '0' {
		text = text[:i+2] + text[i+3:]
	}
	if !lower {
		text = strings.ToUpper(text)
	}
	return text
}
