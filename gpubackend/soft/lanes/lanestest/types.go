// SPDX-License-Identifier: Apache-2.0

// Package lanestest helps to test the loops of package lanes. Only tests use it.
package lanestest

import "strings"

// TypesOf gives the register types of destination and sources for a key of a loop.
func TypesOf(key string) [4]string {
	parts := strings.Split(key, ".")
	last := parts[len(parts)-1]
	t := "b" + last[1:]
	switch parts[0] {
	case "setp":
		return [4]string{"pred", t, t}
	case "selp":
		return [4]string{t, t, t, "pred"}
	case "fma":
		return [4]string{t, t, t, t}
	case "mad", "mul":
		dt := t
		if parts[1] == "wide" {
			dt = "b64"
		}
		if parts[0] == "mad" {
			return [4]string{dt, t, t, dt}
		}
		return [4]string{dt, t, t}
	case "cvt":
		return [4]string{"b" + parts[len(parts)-2][1:], t}
	case "popc", "clz":
		return [4]string{"b32", t}
	case "shl", "shr":
		return [4]string{t, t, "b32"}
	case "neg", "abs", "not", "mov", "sqrt", "rcp":
		return [4]string{t, t}
	}
	return [4]string{t, t, t}
}
