package files

import sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"

func stat(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: p}}}
}

func list(p string, depth uint32) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_List{List: &sandboxv1.List{Path: p, Depth: depth}}}
}

func makeDirectory(p string, mode ...uint32) *sandboxv1.Action {
	a := &sandboxv1.MakeDirectory{Path: p}
	for _, m := range mode {
		a.Mode = &m
	}
	return &sandboxv1.Action{Action: &sandboxv1.Action_MakeDirectory{MakeDirectory: a}}
}

func rename(from, to string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Rename{Rename: &sandboxv1.Rename{From: from, To: to}}}
}

func remove(p string, recursive bool) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Remove{Remove: &sandboxv1.Remove{Path: p, Recursive: recursive}}}
}

func changed(c *sandboxv1.Change) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Change{Change: c}}
}

func read(p string, offset, length uint64, toEnd bool) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: p, Offset: offset, Length: length, ToEnd: toEnd}}}
}

func readAll(p string) *sandboxv1.Action { return read(p, 0, 0, true) }

func write(p string, mode ...uint32) *sandboxv1.Action {
	a := &sandboxv1.Write{Path: p}
	for _, m := range mode {
		a.Mode = &m
	}
	return &sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: a}}
}

func watchAction(p string, recursive bool) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Watch{Watch: &sandboxv1.Watch{Path: p, Recursive: recursive}}}
}

func readArchive(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_ReadArchive{ReadArchive: &sandboxv1.ReadArchive{Path: p}}}
}

func writeArchive(p string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_WriteArchive{WriteArchive: &sandboxv1.WriteArchive{Path: p}}}
}
