package api

import (
	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

const (
	// maxBody bounds the body of a request.
	maxBody = 64 << 10
	// maxSandboxBody bounds the body that creates or updates a sandbox: all metadata that is allowed and 128 KiB of environment, however
	// they're escaped.
	maxSandboxBody = 2 << 20
	// maxSessionBody bounds the body that creates a session: 1 MiB of stdin in base64, 128 KiB each of arguments and environment, however
	// they're escaped.
	maxSessionBody = 3 << 20
	// maxTemplateBody bounds the body that builds a template: 1 MiB of what it's made of, however that is escaped.
	maxTemplateBody = 4 << 20
)

// route is what the door needs to know of an operation before it's decoded. A test compares the table with openapi.yaml.
type route struct {
	open   bool             // served without a key
	needs  space.Permission // what the caller's role must have; a route that isn't open and needs nothing is closed to all
	query  []string         // the parameters that it takes
	many   map[string]int   // how often a parameter may be given, if more than once
	body   func() any       // a value of the body's type; nil if it takes none
	bare   bool             // the body may be left out
	filled []string         // fields of the body that aren't empty where they're given
	limit  int64            // of the body, in bytes
}

// page are the parameters of a list.
var page = []string{"cursor", "limit"}

// routes are the operations by the pattern under which they're served. This is the one place that says who may call what.
var routes = map[string]route{
	"GET /v1/sandboxes": {
		needs: space.PermissionReadSandboxes, query: []string{"cursor", "limit", "metadata", "state"}, many: map[string]int{"metadata": 8, "state": 15},
	},
	"POST /v1/sandboxes": {
		needs: space.PermissionWriteSandboxes, query: []string{"wait"}, body: func() any { return new(gen.SandboxCreate) }, limit: maxSandboxBody,
		filled: []string{"template", "snapshot"},
	},
	"GET /v1/sandboxes/{sandbox}":    {needs: space.PermissionReadSandboxes},
	"DELETE /v1/sandboxes/{sandbox}": {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"PATCH /v1/sandboxes/{sandbox}": {
		needs: space.PermissionWriteSandboxes, body: func() any { return new(gen.SandboxUpdate) }, limit: maxSandboxBody,
	},
	"POST /v1/sandboxes/{sandbox}/stop":    {needs: space.PermissionWriteSandboxes, query: []string{"wait", "grace"}},
	"POST /v1/sandboxes/{sandbox}/start":   {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/pause":   {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/resume":  {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/suspend": {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/restore": {needs: space.PermissionWriteSandboxes, query: []string{"wait", "cold"}},
	"POST /v1/sandboxes/{sandbox}/wake":    {needs: space.PermissionWriteSandboxes, query: []string{"wait"}},
	"POST /v1/sandboxes/{sandbox}/fork": {
		needs: space.PermissionWriteSandboxes, query: []string{"wait"}, body: func() any { return new(gen.SandboxFork) }, bare: true, limit: maxSandboxBody,
	},
	"POST /v1/sandboxes/{sandbox}/rollback": {needs: space.PermissionWriteSandboxes, query: []string{"wait", "snapshot", "cold"}},
	"GET /v1/sandboxes/{sandbox}/snapshots": {needs: space.PermissionReadSandboxes, query: page},
	"POST /v1/sandboxes/{sandbox}/snapshots": {
		needs: space.PermissionWriteSandboxes, query: []string{"wait"}, body: func() any { return new(gen.SnapshotCreate) }, bare: true, limit: maxBody,
	},
	"GET /v1/garbage":                    {needs: space.PermissionReadSandboxes},
	"DELETE /v1/garbage":                 {needs: space.PermissionWriteSandboxes},
	"GET /v1/snapshots":                  {needs: space.PermissionReadSandboxes, query: page},
	"GET /v1/snapshots/{snapshot}":       {needs: space.PermissionReadSandboxes},
	"DELETE /v1/snapshots/{snapshot}":    {needs: space.PermissionWriteSandboxes},
	"GET /v1/sandboxes/{sandbox}/tokens": {needs: space.PermissionReadSandboxes},
	"POST /v1/sandboxes/{sandbox}/tokens": {
		needs: space.PermissionGrantData, body: func() any { return new(gen.SandboxTokenCreate) }, bare: true, limit: maxBody,
	},
	"DELETE /v1/sandboxes/{sandbox}/tokens/{token}": {needs: space.PermissionGrantData},
	"POST /v1/sandboxes/{sandbox}/file-urls": {
		needs: space.PermissionGrantData, body: func() any { return new(gen.FileURLCreate) }, limit: maxBody,
	},
	"DELETE /v1/sandboxes/{sandbox}/file-urls": {needs: space.PermissionGrantData},
	"GET /v1/sandboxes/{sandbox}/metrics":      {needs: space.PermissionReadSandboxes},
	"GET /v1/sandboxes/{sandbox}/sessions":     {needs: space.PermissionReadSessions, query: page},
	"POST /v1/sandboxes/{sandbox}/sessions": {
		needs: space.PermissionWriteSessions, body: func() any { return new(gen.SessionCreate) }, limit: maxSessionBody,
	},
	"GET /v1/sandboxes/{sandbox}/sessions/{session}":              {needs: space.PermissionReadSessions},
	"POST /v1/sandboxes/{sandbox}/sessions/{session}/attachments": {needs: space.PermissionWriteSessions},
	"GET /v1/operations/{operation}":                              {needs: space.PermissionReadOperations, query: []string{"wait"}},
	"GET /v1/templates":                                           {needs: space.PermissionReadTemplates, query: page},
	"POST /v1/templates": {
		needs: space.PermissionWriteTemplates, query: []string{"wait"}, body: func() any { return new(gen.TemplateCreate) }, limit: maxTemplateBody,
	},
	"GET /v1/templates/{template}":                    {needs: space.PermissionReadTemplates},
	"DELETE /v1/templates/{template}":                 {needs: space.PermissionWriteTemplates},
	"PUT /v1/templates/{template}/tags/{tag}":         {needs: space.PermissionWriteTemplates},
	"DELETE /v1/templates/{template}/tags/{tag}":      {needs: space.PermissionWriteTemplates},
	"PUT /v1/templates/{template}/aliases/{alias}":    {needs: space.PermissionWriteTemplates},
	"DELETE /v1/templates/{template}/aliases/{alias}": {needs: space.PermissionWriteTemplates},
	"GET /v1/templates/{template}/logs":               {needs: space.PermissionReadTemplates, query: page},
	"GET /v1/uploads":                                 {needs: space.PermissionReadTemplates, query: page},
	"DELETE /v1/uploads/{upload}":                     {needs: space.PermissionWriteTemplates},
	"POST /v1/uploads":                                {needs: space.PermissionWriteTemplates, body: func() any { return new(gen.UploadCreate) }, limit: maxBody},

	"GET /v1/me":                    {needs: space.PermissionReadSelf},
	"GET /v1/roles":                 {needs: space.PermissionReadSelf},
	"GET /v1/node":                  {needs: space.PermissionReadSelf},
	"GET /v1/projects":              {needs: space.PermissionReadProjects, query: page},
	"GET /v1/projects/{project}":    {needs: space.PermissionReadProjects},
	"POST /v1/projects":             {needs: space.PermissionWriteProjects, body: func() any { return new(gen.ProjectCreate) }, limit: maxBody},
	"PATCH /v1/projects/{project}":  {needs: space.PermissionWriteProjects, body: func() any { return new(gen.ProjectUpdate) }, limit: maxBody},
	"DELETE /v1/projects/{project}": {needs: space.PermissionWriteProjects},
	"GET /v1/users":                 {needs: space.PermissionReadUsers, query: page},
	"POST /v1/users":                {needs: space.PermissionWriteUsers, body: func() any { return new(gen.UserCreate) }, limit: maxBody},
	"PATCH /v1/users/{user}":        {needs: space.PermissionWriteUsers, body: func() any { return new(gen.UserUpdate) }, limit: maxBody},
	"DELETE /v1/users/{user}":       {needs: space.PermissionWriteUsers},
	"GET /v1/keys":                  {needs: space.PermissionReadKeys, query: page},
	"POST /v1/keys":                 {needs: space.PermissionWriteKeys, body: func() any { return new(gen.KeyCreate) }, limit: maxBody},
	"DELETE /v1/keys/{key}":         {needs: space.PermissionWriteKeys},
	"GET /v1/events":                {needs: space.PermissionReadEvents, query: []string{"cursor", "limit", "sandbox"}},
	"GET /healthz":                  {open: true},
	"GET /readyz":                   {open: true},
	"GET /docs":                     {open: true},
	"GET /openapi.yaml":             {open: true},
}
