-- Argo CD health check of a LlamaStackDistribution, for both API versions.
--
-- Healthy: the current spec is applied and its pods are available. Degraded: someone must act.
-- Progressing: everything else, also a spec that the operator has not seen yet.
local status = obj.status
if status == nil or status.conditions == nil then
  return { status = "Progressing", message = "waiting for the operator" }
end
if status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "waiting for the operator to read the current spec" }
end

local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end

local stalled = conditions["Stalled"]
if stalled ~= nil and stalled.status == "True" then
  return { status = "Degraded", message = stalled.message }
end
local ready = conditions["Ready"]
if ready ~= nil and ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
local message = "waiting for the server"
if ready ~= nil then
  message = ready.message
end
return { status = "Progressing", message = message }
