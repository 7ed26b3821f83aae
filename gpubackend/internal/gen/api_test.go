// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFunctionsGolden(t *testing.T) {
	a, err := parseAPI("testdata/api")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"driver.go": driverGo(a), "dispatch.go": dispatchGo(a), "driver_calls.go": callsGo(a),
		"sets.go":  setsGo(a),
		"steps.go": stepsGo(a),
		"words.h":  whereC(a, &commands{}),
		"calls.h":  callsC(a), "exports.c": exportsC(a), "variants.c": variantsC(a),
		"stubs.c": stubsC(a), "procs.c": procsC(a),
		"prototypes.h": prototypesC(a), "coverage.md": coverageDoc(a),
	} {
		golden(t, "api/"+name, got)
	}
	golden(t, "api/work.go", workGo(a, &commands{layouts: []layout{{name: "cuRaw", fields: []field{
		{name: "thing", typ: "h", kind: "thing"},
		{name: "stream", typ: "h", kind: "stream", word: 1},
	}}}}))
}

// TestFunctionErrors has descriptions with one fault, which is told with its file and line.
func TestFunctionErrors(t *testing.T) {
	const thing = "kind thing Thing\n"
	for _, tt := range []struct{ name, text, want string }{
		{"two words", "256 call\n", `:1: want number, class and name: "256 call"`},
		{"no number", "x call cuThingCreate\n", `:1: strconv.Atoi: parsing "x": invalid syntax`},
		{"unknown class", "256 hand cuThingCreate\n", `:1: unknown class "hand"`},
		{"unknown flag", "256 call,loud cuThingCreate\n", `:1: unknown flag "loud"`},
		{"a flag's value", "256 call,noctx=1 cuThingCreate\n", `:1: unknown flag "noctx"`},
		{"elements of no bits", "256 post,fill=7 cuFillAsync\n", `:1: unknown flag "fill"`},
		{"no owner", thing + "256 call cuThingCreate thing:o.thing\n",
			":2: cuThingCreate: it makes an object: say with of= with what the object ends"},
		{"an owner of nothing", "256 call,of=home cuThingCreate\n",
			":1: cuThingCreate: of=home, but no object is made"},
		{"an owner that isn't there", thing + "256 call,of=other cuThingCreate thing:o.thing\n",
			":2: cuThingCreate: of=other: no handle of that name"},
		{"an owner that is no handle", thing + "256 call,of=n cuThingCreate n:u thing:o.thing\n",
			":2: cuThingCreate: of=n: no handle of that name"},
		{"an owner without a name", thing + "256 call,of= cuThingCreate thing:o.thing\n",
			`:2: unknown flag "of"`},
		{"a setting of nothing", "256 call,sets=thing+ cuThingCreate thing:u\n",
			":1: cuThingCreate: sets=: no number or handle of that name"},
		{"a setting of a buffer", "256 call,sets=b cuThingCreate b:ib\n",
			":1: cuThingCreate: sets=b: no number or handle of that name"},
		{"no prototype", "256 call cuOther\n", ":1: cuOther has no prototype"},
		{"twice", "256 call cuThingCreate\n257 call cuThingCreate\n",
			":2: cuThingCreate: a second cuThingCreate, or 256"},
		{"a number twice", "256 call cuThingCreate\n256 call cuRange\n",
			":2: cuRange: a second cuThingCreate, or 256"},
		{"a parameter without a code", thing + "256 call cuThingCreate thing\n",
			`:2: cuThingCreate: parameter "thing" has no code`},
		{"unknown code", thing + "256 call cuThingCreate thing:x\n",
			`:2: cuThingCreate: unknown code "x"`},
		{"unknown kind", thing + "256 call cuThingCreate thing:h.other\n",
			`:2: cuThingCreate: there is no kind "other"`},
		{"unknown set", thing + "256 call cuThingCreate flags:u.other\n",
			":2: cuThingCreate: there is no set other"},
		{"a kind twice", thing + thing,
			`:2: want a new name, a name in Go, and flags: ["thing" "Thing"]`},
		{"a handle of a kind", thing + "handle thing\n", `:2: want a new name: ["thing"]`},
		{"a kind's flag", "kind thing Thing loud\n", `:1: thing: unknown flag "loud"`},
		{"a set twice", "set s bits 1\nset s bits 2\n",
			`:2: want a new name, bits or of, and numbers: ["s" "bits" "2"]`},
		{"a set of something", "set s about 1\n", `:1: "about" is neither bits nor of`},
		{"too large for a set", "set s of 64\n",
			`:1: strconv.ParseUint: parsing "64": value out of range`},
		{"a string", thing + "256 call cuThingName thing:h.thing name:is s:u\n",
			":2: cuThingName has a string: its symbol is custom"},
		{"no room", "256 call cuRange\n", ": cuRange is in no room"},
		{"a room without a name", "room\n", ":1: want the name of a room: []"},
		{"a room's name", "room The-Room\n", `:1: want the name of a room: ["The-Room"]`},
		{"old of nothing", "old cuOld cuOther\n",
			`:1: want an old symbol and one that has a prototype: ["cuOld" "cuOther"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"prototypes.tsv", "versions.tsv"} {
				b, err := os.ReadFile("testdata/api/" + name)
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "cuda.def"), []byte(tt.text),
				0o600); err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(dir, "cuda.def") + tt.want
			if _, err := parseAPI(dir); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

func TestWireGolden(t *testing.T) {
	w, err := parseWire("testdata/wire.def")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "wire.go", wireGo(w))
	golden(t, "wire.h", wireHeader(w))
	golden(t, "wire.md", wireDoc(w))
}

func TestWireErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing of the kind", "thing X 1\n", `:1: not a declaration: "thing X 1"`},
		{"no number", "const A x\n", `:1: strconv.ParseUint: parsing "x": invalid syntax`},
		{"unknown type", "struct s {\n  u128 a\n}\n", `:2: unknown type "u128"`},
		{"padding", "struct s {\n  u32 a\n  u64 b\n}\n",
			":3: b at offset 4: write out the padding before it"},
		{"no member", "struct s {\n  u32\n}\n", `:2: not a member: ["u32"]`},
		{"no length", "struct s {\n  u8 a[x]\n}\n",
			`:2: strconv.Atoi: parsing "x": invalid syntax`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "wire.def")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := parseWire(path); err == nil || err.Error() != path+tt.want {
				t.Errorf("error %v, want %s", err, path+tt.want)
			}
		})
	}
}

// TestDescriptionIsCurrent generates all files again: they are those in the tree.
func TestDescriptionIsCurrent(t *testing.T) {
	t.Chdir("../../..")
	outputs, err := allOutputs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		text, err := o.final()
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(o.path); err != nil || string(have) != string(text) {
			t.Errorf("%s is not current (%v): make generate", o.path, err)
		}
	}
}
