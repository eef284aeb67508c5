package space

import "slices"

// Role is what a user or a key may do, in the API's words. Roles are a ladder: each may all that the ones below it may.
type Role string

// The roles, from the top. An owner's is the organisation, the others' is one project.
const (
	RoleOwner     Role = "owner"     // everything in the organisation: projects with their quotas, users, the keys of all projects
	RoleAdmin     Role = "admin"     // everything in one project, its keys included; not its quota
	RoleDeveloper Role = "developer" // sandboxes, sessions and templates of one project
	RoleViewer    Role = "viewer"    // reads what one project has
)

// ladder is the roles from the bottom.
var ladder = []Role{RoleViewer, RoleDeveloper, RoleAdmin, RoleOwner}

// Permission is one thing that a role may do. Each operation of the API needs exactly one.
type Permission string

// The permissions.
const (
	PermissionReadSelf       Permission = "self:read"       // who one is, the table of roles, what the node is
	PermissionReadSandboxes  Permission = "sandboxes:read"  // sandboxes with their figures
	PermissionWriteSandboxes Permission = "sandboxes:write" // create, update, stop, start, delete
	PermissionReadSessions   Permission = "sessions:read"   // sessions, without their output
	PermissionWriteSessions  Permission = "sessions:write"  // create sessions and open them
	PermissionGrantData      Permission = "data:grant"      // sandbox tokens and signed URLs
	PermissionReadTemplates  Permission = "templates:read"  // templates and the logs of their builds
	PermissionWriteTemplates Permission = "templates:write" // build, tag, delete, upload
	PermissionReadOperations Permission = "operations:read" // follow a lifecycle change
	PermissionReadEvents     Permission = "events:read"     // what happened in the project
	PermissionReadProjects   Permission = "projects:read"   // the own project with its quota and what of it is used
	PermissionReadKeys       Permission = "keys:read"       // the project's keys, without the secrets
	PermissionWriteKeys      Permission = "keys:write"      // create and revoke them, up to the own role
	PermissionReadUsers      Permission = "users:read"      // the organisation's users
	PermissionAllProjects    Permission = "projects:all"    // all projects of the organisation and their keys, not only the own one's
	PermissionWriteProjects  Permission = "projects:write"  // create, change, delete projects; set quotas
	PermissionWriteUsers     Permission = "users:write"     // add and remove users, change their roles
)

// leastRole is the one table of what each role may do: the lowest role that has a permission. docs/tenancy.md shows it and a test
// compares the two. A permission that isn't here is nobody's.
var leastRole = map[Permission]Role{
	PermissionReadSelf:       RoleViewer,
	PermissionReadSandboxes:  RoleViewer,
	PermissionReadSessions:   RoleViewer,
	PermissionReadTemplates:  RoleViewer,
	PermissionReadOperations: RoleViewer,
	PermissionReadEvents:     RoleViewer,
	PermissionReadProjects:   RoleViewer,
	PermissionWriteSandboxes: RoleDeveloper,
	PermissionWriteSessions:  RoleDeveloper,
	PermissionGrantData:      RoleDeveloper,
	PermissionWriteTemplates: RoleDeveloper,
	PermissionReadKeys:       RoleAdmin,
	PermissionWriteKeys:      RoleAdmin,
	PermissionReadUsers:      RoleAdmin,
	PermissionAllProjects:    RoleOwner,
	PermissionWriteProjects:  RoleOwner,
	PermissionWriteUsers:     RoleOwner,
}

// Roles returns every role from the top.
func Roles() []Role {
	out := slices.Clone(ladder)
	slices.Reverse(out)
	return out
}

// Known reports whether r is a word of the vocabulary.
func (r Role) Known() bool { return slices.Contains(ladder, r) }

// May reports whether the role has a permission. An unknown role has none, and an unknown permission is nobody's.
func (r Role) May(p Permission) bool {
	least, ok := leastRole[p]
	return ok && r.Known() && least.AtMost(r)
}

// AtMost reports whether r may nothing that other may not. Of unknown roles it's false.
func (r Role) AtMost(other Role) bool {
	return r.Known() && slices.Index(ladder, r) <= slices.Index(ladder, other)
}

// Lower returns the lower of two roles; "", which may nothing, if one is unknown.
func (r Role) Lower(other Role) Role {
	switch {
	case !r.Known() || !other.Known():
		return ""
	case r.AtMost(other):
		return r
	default:
		return other
	}
}

// Permissions returns what a role may do, in alphabetical order.
func (r Role) Permissions() []Permission {
	var out []Permission
	for p := range leastRole {
		if r.May(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
