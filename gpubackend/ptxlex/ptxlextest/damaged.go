// SPDX-License-Identifier: Apache-2.0

// Package ptxlextest makes PTX that is wrong in one place, for tests of code that reads it.
package ptxlextest

import (
	"iter"
	"regexp"
	"strings"
)

var pieces = regexp.MustCompile(`\.?[%$]?\w+|"[^"]*"|\s+|.`)

// instead is what replaces a token: beginnings and ends of constructs, names of each kind, and
// numbers at the edges.
var instead = []string{
	"", "{", "}", "(", ")", "[", "]", "<", ",", ";", ":", "=", "-", "@", "|", "!", "\"", "+8",
	".b32", ".u64", ".pred", ".param", ".shared", ".global", ".const", ".align 3",
	".reg .b32 %x<9>",
	".entry", ".func", ".f16x2", ".v2", "%r1", "%p1", "%tid.x", "_", "nothing", "sub", "k", "$L2",
	"0", "-1", "3", "4294967296", "0xffffffffffffffff", "0f7fffffff", "1e999", "1U", "08",
}

// besides is how many of them may also be added after a token: those that begin or end something.
const besides = 17

// Damaged returns the text once for each token and each replacement or addition, and cut off after
// each token.
func Damaged(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, at := range pieces.FindAllStringIndex(text, -1) {
			before, piece, after := text[:at[0]], text[at[0]:at[1]], text[at[1]:]
			if strings.TrimSpace(piece) == "" {
				continue
			}
			for i, other := range instead {
				if !yield(before+other+after) ||
					0 < i && i <= besides && !yield(before+piece+other+after) {
					return
				}
			}
			if !yield(before+piece+" "+piece+after) || !yield(before+piece) {
				return
			}
		}
	}
}
