// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"io"
)

// Print prints a finding for people: what is wrong stands out, and its fix is on a line of its own.
func Print(w io.Writer, f Finding) {
	fmt.Fprintf(w, "%-8s %s: %s\n", f.Level, f.Check, f.Found)
	if f.Fix != "" {
		fmt.Fprintf(w, "%-8s   fix: %s\n", "", f.Fix)
	}
}

// PrintSum prints how many problems and warnings there are.
func PrintSum(w io.Writer, all []Finding) {
	fmt.Fprintf(w, "%s, %s\n", several(Count(all, Problem), "problem"),
		several(Count(all, Warning), "warning"))
}

func several(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// PrintJSON prints all findings for programs.
func PrintJSON(w io.Writer, all []Finding) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Healthy  bool      `json:"healthy"`
		Findings []Finding `json:"findings"`
	}{Count(all, Problem) == 0, all})
}
