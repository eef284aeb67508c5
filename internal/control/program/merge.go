package program

import "maps"

// MergeEnv lays environments over each other, the later ones above the earlier ones. Together they have the limits of one; the error of what is
// too much is that of the field.
func MergeEnv(field string, layers ...map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for _, l := range layers {
		maps.Copy(out, l)
	}
	return out, CheckEnv(field, out)
}
