// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// function reads a line of cuda.def: a function, or something that functions refer to.
func (a *api) function(line string) error {
	line, _, _ = strings.Cut(line, "#")
	f := strings.Fields(line)
	switch {
	case len(f) == 0:
		return nil
	case f[0] == "set":
		return a.set(f[1:])
	case f[0] == "kind":
		return a.kind(f[1:])
	case f[0] == "handle":
		return a.handle(f[1:])
	case f[0] == "room":
		return a.enter(f[1:])
	case f[0] == "old":
		return a.older(f[1:])
	case len(f) < 3:
		return fmt.Errorf("want number, class and name: %q", line)
	}
	fn := function{symbol: f[2], room: a.room}
	if err := fn.begin(f[0], f[1]); err != nil {
		return err
	}
	for _, w := range f[3:] {
		p, err := a.param(w)
		if err != nil {
			return fmt.Errorf("%s: %w", fn.symbol, err)
		}
		fn.params = append(fn.params, p)
	}
	return a.add(fn)
}

// add takes a function whose name and number are new.
func (a *api) add(fn function) error {
	for _, g := range a.functions {
		if g.symbol == fn.symbol || g.number == fn.number && fn.number != 0 {
			return fmt.Errorf("%s: a second %s, or %d", fn.symbol, g.symbol, g.number)
		}
	}
	if !fn.op && a.prototypes[fn.symbol] == "" {
		return fmt.Errorf("%s has no prototype", fn.symbol)
	}
	for _, p := range fn.params {
		if p.code == "is" && fn.native(a) && !fn.custom {
			return fmt.Errorf("%s has a string: its symbol is custom", fn.symbol)
		}
	}
	if err := errors.Join(fn.checkOwner(), fn.checkKeys()); err != nil {
		return fmt.Errorf("%s: %w", fn.symbol, err)
	}
	a.functions = append(a.functions, fn)
	return nil
}

// What of= may say besides the name of a parameter.
const (
	ofHome    = "home"
	ofCurrent = "current"
	ofNothing = "nothing"
)

// checkOwner says whether of= is there exactly if the function makes or names objects, and names
// something with which objects may end.
func (fn *function) checkOwner() error {
	makes := slices.ContainsFunc(fn.params, func(p param) bool {
		return p.code == "o" || p.code == "oh" || p.code == "on"
	})
	switch fn.of {
	case "":
		if makes {
			return errors.New("it makes an object: say with of= with what the object ends")
		}
		return nil
	case ofHome, ofCurrent, ofNothing:
	default:
		if !slices.ContainsFunc(fn.params, func(p param) bool {
			return p.code == "h" && p.name == fn.of
		}) {
			return fmt.Errorf("of=%s: no handle of that name", fn.of)
		}
	}
	if !makes {
		return fmt.Errorf("of=%s, but no object is made", fn.of)
	}
	return nil
}

// checkKeys says whether sets= names parameters that are words.
func (fn *function) checkKeys() error {
	for _, key := range fn.keys {
		if _, ok := fn.wordOf(func(p param) bool { return p.word() && p.name == key }); !ok {
			return fmt.Errorf("sets=%s: no number or handle of that name", key)
		}
	}
	return nil
}

// wordOf is the word of a command at which the first parameter begins that is looked for.
func (fn *function) wordOf(is func(param) bool) (word int, ok bool) {
	for _, p := range fn.params {
		switch {
		case is(p):
			return word, true
		case p.word():
			word++
		case p.buffer():
			word += 2
		}
	}
	return 0, false
}

// begin reads the number, class and flags.
func (fn *function) begin(number, class string) error {
	if number != "-" {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		fn.number = n
	}
	class, flags, _ := strings.Cut(class, ",")
	switch class {
	case "call", "post", "raw", "local":
		fn.class = class
	default:
		return fmt.Errorf("unknown class %q", class)
	}
	for flags != "" {
		var flag string
		flag, flags, _ = strings.Cut(flags, ",")
		if err := fn.flag(flag); err != nil {
			return err
		}
	}
	return nil
}

func (fn *function) flag(flag string) error {
	flag, value, has := strings.Cut(flag, "=")
	flags := map[string]*bool{
		"custom": &fn.custom, "noctx": &fn.noctx, "op": &fn.op, "final": &fn.final,
		"exact": &fn.exact, "optional": &fn.optional, "step": &fn.step, "work": &fn.work,
		"sets": &fn.sets,
	}
	switch {
	case flag == "fill" && (value == "8" || value == "16" || value == "32"):
		fn.fill = value
	case flag == "of" && value != "":
		fn.of = value
	case flag == "sets" && value != "":
		fn.sets, fn.keys = true, strings.Split(value, "+")
	case flags[flag] != nil && !has:
		*flags[flag] = true
	default:
		return fmt.Errorf("unknown flag %q", flag)
	}
	return nil
}

// param reads "name:code[.kind]".
func (a *api) param(text string) (param, error) {
	name, code, ok := strings.Cut(text, ":")
	if !ok {
		return param{}, fmt.Errorf("parameter %q has no code", text)
	}
	code, kind, _ := strings.Cut(code, ".")
	p := param{name: name, code: code, kind: kind}
	switch code {
	case "u":
		if kind != "" && !a.hasSet(kind) {
			return p, fmt.Errorf("there is no set %s", kind)
		}
	case "ib":
		p.kind, p.test = "", kind
	case "si":
		p.kind, p.test, _ = strings.Cut(kind, ".")
	case "h", "d", "o", "ih", "oh":
		if p.of = a.kindOf(kind); p.of == nil {
			return p, fmt.Errorf("there is no kind %q", kind)
		}
	case "ou", "is", "ob", "so", "in", "on":
	default:
		return p, fmt.Errorf("unknown code %q", code)
	}
	return p, nil
}
