// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kernelDriver is where the guest's kernel driver is.
const kernelDriver = "guestdriver/kernel"

// TestKernelLayers: each file of the kernel driver uses only itself and files that Kbuild lists
// before it. The test reads the sources, and so sees files for other kinds of kernels, too.
func TestKernelLayers(t *testing.T) {
	order := kbuildOrder(string(read(t, kernelDriver+"/Kbuild")))
	text := map[string]string{}
	for _, file := range sources(t, kernelDriver+"/*.c") {
		if name := strings.TrimPrefix(file, kernelDriver+"/"); !strings.Contains(name, "/") {
			text[strings.TrimSuffix(name, ".c")] = string(read(t, file))
		}
	}
	if there := slices.Sorted(maps.Keys(text)); !slices.Equal(there,
		slices.Sorted(slices.Values(order))) {
		t.Errorf("Kbuild lists %q, and there are %q", order, there)
	}
	wrong, uses := backward(order, text)
	for _, w := range wrong {
		t.Error(w)
	}
	if uses < 100 {
		t.Errorf("found %d uses of other files, want at least 100", uses)
	}
}

// kbuildOrder returns the driver's files, without their endings, in the order in which Kbuild has
// them.
func kbuildOrder(kbuild string) []string {
	_, list, _ := strings.Cut(strings.ReplaceAll(kbuild, "\\\n", " "), "\nparacuda-y := ")
	list, _, _ = strings.Cut(list, "\n")
	var order []string
	for _, object := range strings.Fields(list) {
		order = append(order, strings.TrimSuffix(object, ".o"))
	}
	return order
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	// A function or variable that begins in the first column. Other files can't use a static one.
	cDefinition = regexp.MustCompile(`(?m)^((?:[a-z_]\w*[ \t*]+)+)` +
		`(paracuda_\w+)(?:\([^;{]*\)\n\{|[ =\[;])`)
	cName = regexp.MustCompile(`(struct\s+)?\b(paracuda_\w+)\b`)
)

// backward finds the uses of what a later file defines, and counts all uses of other files.
func backward(order []string, text map[string]string) (wrong []string, uses int) {
	definedIn := map[string]string{}
	for file, source := range text {
		text[file] = cComment.ReplaceAllString(source, "")
		for _, m := range cDefinition.FindAllStringSubmatch(text[file], -1) {
			if !strings.HasPrefix(m[1], "static ") {
				definedIn[m[2]] = file
			}
		}
	}
	for from, source := range text {
		for _, m := range cName.FindAllStringSubmatch(source, -1) {
			to, ok := definedIn[m[2]]
			if m[1] != "" || !ok || to == from {
				continue
			}
			uses++
			if slices.Index(order, to) > slices.Index(order, from) {
				wrong = append(wrong,
					fmt.Sprintf("%s.c uses %s of %s.c, which Kbuild lists after it", from, m[2],
						to))
			}
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong), uses
}

// TestBackward: backward finds the wrong uses, and no others.
func TestBackward(t *testing.T) {
	order := kbuildOrder("obj-m := paracuda.o\nparacuda-y := token.o queue.o \\\n\tmain.o\n")
	const queue = "static int paracuda_own(void)\n{\n}\n\n" +
		"int paracuda_post(struct paracuda_token *t,\n\t\t  int n)\n{\n\treturn t->n;\n}\n"
	for _, c := range []struct{ name, token, main, want string }{
		{"downward", "", "\tparacuda_post(t, 1);\n", ""},
		{"upward", "\tparacuda_post(t, 1);\n", "",
			"token.c uses paracuda_post of queue.c, which Kbuild lists after it"},
		{"in a comment", "/* paracuda_post() */\n", "", ""},
		{"another's static", "\tparacuda_own();\n", "", ""},
		{"variable", "\tparacuda_wq = 0;\n", "struct workqueue_struct *paracuda_wq;\n",
			"token.c uses paracuda_wq of main.c, which Kbuild lists after it"},
		{"structure of that name", "\tstruct paracuda_post p;\n", "", ""},
	} {
		got, _ := backward(order,
			map[string]string{"token": c.token, "queue": queue, "main": c.main})
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

// headerParts finds the files whose parts a header declares, and the headers that it names instead.
var headerParts = regexp.MustCompile(`(?m)^/\* (\w+\.c(?:, \w+\.c)*)(?:: see (\w+\.h))?`)

// TestKernelHeaders: paracuda.h declares the files' parts in Kbuild's order, or names the header
// that does, and so do those.
func TestKernelHeaders(t *testing.T) {
	parts := func(header string, do func(files []string, see string)) {
		text := string(read(t, filepath.Join(kernelDriver, header)))
		for _, m := range headerParts.FindAllStringSubmatch(text, -1) {
			do(strings.Split(m[1], ", "), m[2])
		}
	}
	var all []string
	elsewhere := map[string][]string{} // by header
	parts("paracuda.h", func(files []string, see string) {
		all = append(all, files...)
		if see != "" {
			elsewhere[see] = append(elsewhere[see], files...)
		}
	})
	var want []string
	for _, file := range kbuildOrder(string(read(t, kernelDriver+"/Kbuild"))) {
		want = append(want, file+".c")
	}
	if want = want[:len(want)-1]; !slices.Equal(all, want) { // main.c has none
		t.Errorf("paracuda.h has the parts %q, want %q", all, want)
	}
	for header, want := range elsewhere {
		var has []string
		parts(header, func(files []string, _ string) { has = append(has, files...) })
		if !slices.Equal(has, want) {
			t.Errorf("%s has the parts %q, want %q", header, has, want)
		}
	}
}
