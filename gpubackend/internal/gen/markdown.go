// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// columns is how wide a line of a document may be.
const columns = 100

// narrow makes a document's lines fit: it wraps paragraphs, and moves long last cells of a table
// to a list below it.
func narrow(doc string) string {
	var out []string
	lines := strings.Split(doc, "\n")
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && kindOf(lines[n]) == kindOf(lines[0]) && kindOf(lines[0]) != other {
			n++
		}
		group := slices.Clone(lines[:n])
		lines = lines[n:]
		switch {
		case !slices.ContainsFunc(group, tooWide):
		case kindOf(group[0]) == row:
			group = narrowTable(group)
		case kindOf(group[0]) == prose:
			group = wrap(strings.Join(group, " "), "", "")
		}
		out = append(out, group...)
	}
	return strings.Join(out, "\n")
}

type lineKind int

const (
	other lineKind = iota // headings, items of lists, comments, empty lines: each by itself
	prose
	row
)

func kindOf(line string) lineKind {
	switch {
	case strings.HasPrefix(line, "|"):
		return row
	case line == "" || strings.HasPrefix(line, "- ") || strings.ContainsAny(line[:1], "#< "):
		return other
	}
	return prose
}

func tooWide(line string) bool { return utf8.RuneCountInString(line) > columns }

// wrap breaks a text at spaces; first and rest begin its lines.
func wrap(text, first, rest string) (lines []string) {
	line := first
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case tooWide(line + " " + word):
			lines = append(lines, line)
			line = rest + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// narrowTable moves what is too long for a table's last column below the table, by the row's name.
func narrowTable(rows []string) []string {
	name := max(slices.Index(cells(rows[0]), "name"), 1)
	var below []string
	for i, r := range rows {
		c := cells(r)
		if last := len(c) - 1; tooWide(r) && last > name {
			below = append(below, wrap(c[name]+": "+c[last], "- ", "  ")...)
			c[last] = "see below"
			rows[i] = "| " + strings.Join(c, " | ") + " |"
		}
	}
	return append(append(rows, ""), below...)
}

func cells(row string) []string {
	c := strings.Split(strings.Trim(row, "|"), "|")
	for i := range c {
		c[i] = strings.TrimSpace(c[i])
	}
	return c
}
